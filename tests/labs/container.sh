#!/bin/bash
# Is docs/labs/container/Dockerfile what tests/lib/deps.sh asks for? (Nothing is built here: that needs a network and Docker.)
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/lib/report.sh
report_prefix=container/
wanted=$(sed -n "/^needs='/,/^'/p" tests/lib/deps.sh | awk 'NF == 2 { print $2 }' | sort -u)
missing=
for p in $wanted; do
	tr -s "[:space:]" "\n" <docs/labs/container/Dockerfile | grep -qxF -- "$p" || missing+=" $p"
done
expect dockerfile_has_every_package "" "$missing"
expect devcontainer_is_json 0 "$(python3 -c 'import json; json.load(open("docs/labs/container/devcontainer.json"))' 2>&1; echo $?)"
report_end
