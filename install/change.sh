# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # variables of the other parts, which deploy.sh puts together
# Changing files so that it can be undone at any moment: by this run when a step fails or
# somebody presses Ctrl-C, by the next run when this one was killed.
#
# Everything new is written beside what it replaces (PATH.stile-new) while nothing has changed yet: that is
# where a full disk shows. Then each file is renamed into place, and the old one stays beside it (PATH.stile-old) until
# the end, so that going back is renaming, too, and needs no space. Each step is written into $LIB/undo before it
# is taken:
#
#   dir PATH        made               create PATH    renamed into place; there was none
#   tree PATH       made, with more    replace PATH   renamed into place of the old one
#   new PATH        written beside     remove PATH    taken away
#   user            made               units A E      touched; before, they were active (A) and enabled (E)
#   nginx           told to reload

note() { printf '%s\n' "$*" >>"$LIB/undo"; }

# make_dir makes a directory and those above it.
make_dir() {
	[ ! -d "$1" ] || return 0
	make_dir "$(dirname "$1")"
	note dir "$1"
	mkdir -m 755 "$1"
}

# stage puts a file into the tree of what is to be installed: stage MODE SOURCE PATH.
stage() { install -D -m "$1" -- "$2" "$tree$3"; }

# managed_files lists what an earlier run has installed, which is what may be replaced and removed.
# The configuration, the key and the state are never among it.
managed_files() { [ ! -f "$LIB/files" ] || sed 's/^[0-9a-f]*  //' "$LIB/files"; }

# list_tree writes the list of what is in the tree, with sums, into the tree itself.
list_tree() {
	(cd "$tree" && find . -type f ! -path ".$CONFIG" -printf '%P\n' | LC_ALL=C sort | xargs -r -d '\n' sha256sum) |
		sed 's,  ,  /,' >"$work/files"
	stage 644 "$work/files" "$LIB/files"
}

# compare fills changed with the paths that are not as the tree has them.
compare() {
	local path
	changed=()
	while read -r path; do
		if [ ! -f "$tree$path" ] || [ -L "$path" ] || ! cmp -s "$tree$path" "$path" || [ "$(stat -c %a "$tree$path")" != "$(stat -c %a "$path")" ]; then
			changed+=("$path")
		fi
	done < <({
		(cd "$tree" && find . -type f -printf '/%P\n')
		managed_files | while read -r path; do [ ! -e "$path" ] || printf '%s\n' "$path"; done
	} | LC_ALL=C sort -u)
}

# has_changed tells whether one of the paths is about to change.
has_changed() {
	local path
	for path in "$@"; do
		[[ " ${changed[*]} " != *" $path "* ]] || return 0
	done
	return 1
}

# need_space ends the script unless every file system that is written to has room for it twice.
need_space() {
	local dir have need
	need=$(($(du -sk "$tree" | cut -f 1) * 2 + 1024))
	for dir in "$LIB" "${BINARY%/*}" "$NGINX" "$UNITS" "${CONFIG%/*}" "$STATE"; do
		while [ ! -d "$dir" ]; do dir=$(dirname "$dir"); done
		have=$(df -Pk -- "$dir" | awk 'NR == 2 { print $4 }')
		[ "$have" -ge "$need" ] || die "the disk is full: $dir has $have KiB free, $need are needed; nothing has been changed"
	done
}

# begin opens a change. From here on whatever ends the command undoes it, until commit.
begin() {
	mkdir -p "$LIB" # guarded removes it when it is empty
	note begin
}

# keep_previous copies what is installed now, for rollback; and the first time what lies in the way,
# which somebody has put there by hand.
keep_previous() {
	if [ -f "$LIB/files" ]; then
		keep previous.new < <(printf '%s\n' "$LIB/files" && managed_files)
	else
		keep replaced < <(printf '%s\n' "${changed[@]}")
		[ ! -d "$LIB/replaced" ] || warn "some files were there already; they are kept in $LIB/replaced"
	fi
}

keep() {
	local path
	note tree "$LIB/$1"
	rm -rf "${LIB:?}/$1"
	while read -r path; do
		[ -e "$path" ] || continue
		mkdir -p "$LIB/$1${path%/*}"
		cp -a -- "$path" "$LIB/$1$path"
	done
}

# write_beside writes what has changed beside its place.
write_beside() {
	local path
	for path in "${changed[@]}"; do
		[ -f "$tree$path" ] || continue
		make_dir "$(dirname "$path")"
		note new "$path"
		rm -f "$path.stile-old"
		install -m "$(stat -c %a "$tree$path")" -- "$tree$path" "$path.stile-new"
		sync "$path.stile-new"
	done
}

# rename_into_place is the change itself.
rename_into_place() {
	local path
	for path in "${changed[@]}"; do
		if [ ! -e "$path" ] && [ ! -L "$path" ]; then
			note create "$path"
			mv -T "$path.stile-new" "$path"
		elif [ -f "$tree$path" ]; then
			note replace "$path"
			ln -T "$path" "$path.stile-old" 2>/dev/null || cp -a "$path" "$path.stile-old"
			mv -T "$path.stile-new" "$path"
		else
			note remove "$path"
			mv -T "$path" "$path.stile-old"
		fi
	done
}

# commit ends a change that is to stay. Nothing interrupts it, or what follows.
commit() {
	local path
	trap '' TERM
	if [ -d "$LIB/previous.new" ]; then
		rm -rf "$LIB/previous"
		mv -T "$LIB/previous.new" "$LIB/previous"
	fi
	rm -f "$LIB/undo"
	for path in "${changed[@]}"; do rm -f "$path.stile-old" "$path.stile-new"; done
}

# recover undoes what an earlier run left when it was killed.
recover() {
	[ -f "$LIB/undo" ] || return 0
	if [ -n "$dry" ]; then
		say "an earlier run was killed half-way: it would be undone first"
		return 0
	fi
	warn "an earlier run was killed half-way: undoing it first"
	(
		trap '' TERM PIPE
		set +e
		undo
	) || die "the earlier run could not be undone; see above"
	[ ! -d "$LIB" ] || rmdir --ignore-fail-on-non-empty "$LIB"
}

# undo takes back all that was written down, newest first, each step whether or not it was really done. It goes
# on past what fails: its callers let nothing stop it.
undo() {
	local i path units='' nginx='' failed='' journal=()
	mapfile -t journal <"$LIB/undo"
	changed=()
	for ((i = ${#journal[@]} - 1; i >= 0; i--)); do
		case ${journal[i]} in
		"units "*) units=${journal[i]#units } ;;
		nginx) nginx=yes ;;
		"create "* | "replace "* | "remove "*) changed+=("${journal[i]#* }") ;;
		esac
	done
	# Units that were not there before end while systemd still knows them.
	[[ $units != "inactive"* ]] || stop_units
	for ((i = ${#journal[@]} - 1; i >= 0; i--)); do
		path=${journal[i]#* }
		case ${journal[i]} in
		"new "*) rm -f "$path.stile-new" ;;
		"create "*) rm -f "$path" ;;
		"replace "* | "remove "*)
			if [ -e "$path.stile-old" ] || [ -L "$path.stile-old" ]; then
				mv -fT "$path.stile-old" "$path" || failed="$failed $path"
				rm -f "$path.stile-old" # a rename between two names of one file does nothing
			fi
			;;
		"tree "*) rm -rf "$path" ;;
		esac
	done
	if [ -n "$units" ]; then
		systemctl daemon-reload
		if [[ $units == active* ]]; then
			start_units || failed="$failed stile.service"
		fi
		[[ $units != *" enabled" ]] || systemctl -q enable stile.socket stile.service
	fi
	if [ -n "$nginx" ]; then
		nginx -t 2>/dev/null && reload_nginx || failed="$failed nginx"
	fi
	for ((i = ${#journal[@]} - 1; i >= 0; i--)); do
		path=${journal[i]#* }
		case ${journal[i]} in
		user) ! id stile >/dev/null 2>&1 || userdel stile || failed="$failed user" ;;
		"dir "*) [ ! -d "$path" ] || rmdir "$path" || failed="$failed $path" ;;
		esac
	done
	if [ -n "$failed" ]; then
		fail "could not be put back:$failed. Look there at once"
		return 1
	fi
	rm -f "$LIB/undo"
}
