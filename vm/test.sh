#!/usr/bin/env bash
# Installs stile on a real Debian 12 with a real systemd, in a virtual machine: what becomes of
# the site while that is done, redone, broken and undone. vm/guest.sh is what runs in it.
#
#   ./deploy.sh test --vm      about a quarter of an hour; the first time some minutes more
#
# The processor is emulated, the machine has no network, and nothing that happens in it is kept.
# The whole transcript, and the machine's console, are left in artifacts/vm/.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

LIMIT=40m # for all of it; nothing waits that long unless something hangs
OUT=$PWD/artifacts/vm
WORK=
running=() # processes that end with this one

say() { printf '%s\n' "$*" >&2; }

die() {
	say "vm/test.sh: $*"
	exit 1
}

need() {
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || die "missing: $program (apt-get install qemu-system-x86)"
	done
}

# pack makes the disk with the test: three builds of this checkout, and the checkout.
pack() {
	local dir=$WORK/test
	mkdir -p "$dir/release" "$dir/upgrade" "$dir/failing" "$dir/stile"
	say "building stile three times, and the visitor"
	export CGO_ENABLED=0
	go build -trimpath -buildvcs=false -o "$dir/release/stile" .
	# The same version in other bytes, as a later build of it would be.
	go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$dir/upgrade/stile" .
	printf '{"Replace": {"%s/fault.go": "%s/vm/testdata/fault.go"}}\n' "$PWD" "$PWD" >"$WORK/overlay.json"
	go build -trimpath -buildvcs=false -overlay "$WORK/overlay.json" -o "$dir/failing/stile" .
	go build -trimpath -buildvcs=false -o "$dir/client" ./vm/client
	local build
	for build in release upgrade failing; do
		(cd "$dir/$build" && sha256sum stile >SHA256SUMS)
	done
	git ls-files -z --cached --others --exclude-standard | tar --null --files-from - --create --ignore-failed-read | tar -x -C "$dir/stile"
	cp vm/guest.sh "$dir/run"
	tar -C "$dir" --owner=0 --group=0 -cf "$WORK/test.tar" .
	truncate -s %512 "$WORK/test.tar"
}

boot() {
	local image=$1
	mkdir -p "$OUT"
	rm -f "$OUT/transcript.txt" "$OUT/console.txt"
	: >"$OUT/transcript.txt"
	say "booting; the transcript is $OUT/transcript.txt"
	tail -q -f "$OUT/transcript.txt" &
	running+=($!)
	# -snapshot: what is written goes to temporary files, the image stays as it is.
	timeout "$LIMIT" qemu-system-x86_64 -accel tcg -smp 1 -m 1024 -nodefaults -no-user-config -no-reboot -display none -snapshot \
		-drive "file=$image/root.img,format=raw,if=virtio" -drive "file=$WORK/test.tar,format=raw,if=virtio" \
		-kernel "$image/vmlinuz" -initrd "$image/initrd.img" -append 'root=/dev/vda ro console=ttyS0 quiet panic=-1' \
		-serial "file:$OUT/console.txt" -serial "file:$OUT/transcript.txt" &
	running+=($!)
	wait $! || say "the machine has ended with $?"
}

# clean_up leaves no machine behind, whatever ends the script.
clean_up() {
	[ ${#running[@]} -eq 0 ] || kill "${running[@]}" 2>/dev/null || true
	rm -rf "$WORK"
}

main() {
	need qemu-system-x86_64 go git
	WORK=$(mktemp -d)
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	local image
	image=$(vm/image.sh)
	pack
	boot "$image"
	# The last line is what the guest says when all has been as it should.
	tail -n 1 "$OUT/transcript.txt" | grep -q '^all [0-9]* checks passed' || die "failed: see $OUT/transcript.txt"
}

main "$@"
