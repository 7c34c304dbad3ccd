#!/bin/sh
# Fetches the console's libraries from npm into static/vendor, as their makers published them, with their licences.
# Only the line that names a source map is left out: browsers would ask the server for a file that it does not have.
# To take a newer version: change it here, run this, run the tests in tests/console.

set -eu
cd "$(dirname "$0")/.."
vendor=$PWD/src/tailrace/frontends/console/static/vendor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch NAME VERSION: leaves the package's files in $work/NAME.
fetch() {
    mkdir -p "$work/$1"
    (cd "$work/$1" && npm pack --silent "$1@$2" >/dev/null && tar xzf ./*.tgz --strip-components=1)
}

# take NAME VERSION LICENCE FILE AS: one file of a package, and its line in VERSIONS.
take() {
    sed '/^\/\/# sourceMappingURL=/d' "$work/$1/$4" >"$vendor/$5"
    printf '%s  %s  %s %s (%s), %s\n' "$(sha256sum "$vendor/$5" | cut -c1-64)" "$5" "$1" "$2" "$3" "$4" >>"$vendor/VERSIONS"
}

rm -rf "$vendor"
mkdir -p "$vendor"
fetch htm 3.1.1
fetch preact 10.9.0
fetch uplot 1.6.32
fetch marked 18.2.1
fetch dompurify 3.5.0

# htm's standalone module has Preact and its hooks in it.
take htm 3.1.1 "Apache-2.0; Preact in it: MIT" preact/standalone.module.js preact.js
take uplot 1.6.32 MIT dist/uPlot.iife.min.js uplot.js
take uplot 1.6.32 MIT dist/uPlot.min.css uplot.css
take marked 18.2.1 MIT lib/marked.esm.js marked.js
take dompurify 3.5.0 "Apache-2.0 or MPL-2.0" dist/purify.min.js dompurify.js
for name in htm preact uplot marked dompurify; do
    cp "$work/$name/LICENSE" "$vendor/LICENSE.$name"
done
