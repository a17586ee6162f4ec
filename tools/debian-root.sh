# Functions that create a root file system of this Debian or Ubuntu release. Source this file after
# defining `say` and `die`.

. /etc/os-release

debian_sources() # The sources of the host for its release, in one-line style.
{
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		awk -v name="$VERSION_CODENAME" '
			($2 == name || index($2, name "-") == 1) && $3 { print "deb", $1, $2, $3 }' | sort -u
}

require_mmdebstrap()
{
	if ! command -v mmdebstrap >/dev/null; then
		say "installing mmdebstrap"
		{
			apt-get --quiet update || true
			DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --no-install-recommends install mmdebstrap
		} >&2 </dev/null || die "mmdebstrap cannot be installed"
	fi
}

make_debian() # ROOT PACKAGE,... [OPTION...]: its status is mmdebstrap's
{
	local mirrors root=$1 packages=$2 status=0
	shift 2
	require_mmdebstrap
	mapfile -t mirrors < <(debian_sources)
	mkdir -p "$root"
	# How the host reaches its sources: proxies, time limits, retries.
	apt-config dump | grep -E '^Acquire::(https?|Check-|Retries|ForceIPv)[^ ]* "[^"]' >"$root.settings" || true
	mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
		--aptopt="$root.settings" "$@" "$VERSION_CODENAME" "$root" "${mirrors[@]}" >&2 </dev/null || status=$?
	rm -f "$root.settings"
	return "$status"
}
