#!/usr/bin/env bash
# Builds the machine of vm/test.sh: a Debian 12 with systemd, nginx and what the test itself
# needs, and nothing of stile. It prints the folder where it is: root.img, vmlinuz, initrd.img.
# It is built once, and again when this file changes.
set -euo pipefail

RELEASE=bookworm
PACKAGES=(systemd-sysv udev dbus initramfs-tools linux-image-cloud-amd64 nginx-light curl procps iproute2)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/stile-vm

say() { printf '%s\n' "$*" >&2; }

die() {
	say "vm/image.sh: $*"
	exit 1
}

# mirror is the Debian mirror that apt uses on this machine, or $MIRROR.
mirror() {
	local uri=${MIRROR:-}
	[ -z "$uri" ] || {
		printf '%s\n' "$uri"
		return
	}
	# shellcheck disable=SC2016 # apt's own names
	uri=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' "Codename: $RELEASE" 'Component: main' 2>/dev/null | head -n 1) || true
	[ -n "$uri" ] || die "apt knows no mirror of Debian $RELEASE on this machine: say one, MIRROR=URL vm/image.sh"
	printf '%s\n' "$uri"
}

build() {
	local dir=$1 root=$1/root
	[ "$(id -u)" -eq 0 ] || die "building the image needs root (debootstrap); once it is there, the test does not"
	local program
	for program in debootstrap mke2fs; do
		command -v "$program" >/dev/null || die "missing: $program (apt-get install debootstrap e2fsprogs)"
	done
	local packages
	packages=$(IFS=, && printf '%s' "${PACKAGES[*]}")
	# The initrd holds only what this machine is booted with: it is unpacked by an emulated processor.
	debootstrap --variant=minbase --include="$packages" "$RELEASE" "$root" "$(mirror)" >"$dir/log" 2>&1 ||
		die "debootstrap failed: $dir/log"
	sed -i 's/^MODULES=.*/MODULES=list/' "$root/etc/initramfs-tools/initramfs.conf"
	printf '%s\n' virtio_pci virtio_blk ext4 >>"$root/etc/initramfs-tools/modules"
	chroot "$root" update-initramfs -u >>"$dir/log" 2>&1 || die "the initrd could not be made: $dir/log"

	echo stile-vm >"$root/etc/hostname"
	printf '127.0.0.1 localhost stile-vm\n' >"$root/etc/hosts"
	printf '/dev/vda / ext4 defaults,noatime 0 1\n' >"$root/etc/fstab"
	# The test comes on a second disk, as a tar, and its lines leave by the second serial port.
	cat >"$root/etc/systemd/system/stile-test.service" <<-'UNIT'
		[Unit]
		Description=the test of vm/test.sh
		After=multi-user.target nginx.service
		[Service]
		Type=oneshot
		ExecStart=/bin/sh -c 'mkdir -p /test && tar -xf /dev/vdb -C /test && stty -F /dev/ttyS1 raw && exec /test/run >/dev/ttyS1 2>&1'
		ExecStopPost=/bin/systemctl poweroff --no-block
		[Install]
		WantedBy=default.target
	UNIT
	chroot "$root" systemctl enable stile-test.service >>"$dir/log" 2>&1
	chroot "$root" systemctl mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service \
		fstrim.timer getty@tty1.service systemd-networkd-wait-online.service >>"$dir/log" 2>&1

	cp "$root"/boot/vmlinuz-* "$dir/vmlinuz"
	cp "$root"/boot/initrd.img-* "$dir/initrd.img"
	rm -rf "$root"/var/cache/apt "$root"/var/lib/apt/lists "$root"/usr/share/doc "$root"/usr/share/man
	mke2fs -q -t ext4 -O ^has_journal -d "$root" "$dir/root.img" 1500M >>"$dir/log" 2>&1 || die "mke2fs failed: $dir/log"
	rm -rf "$root"
}

main() {
	local key dir
	key=$(sha256sum "${BASH_SOURCE[0]}" | cut -c 1-16)
	dir=$CACHE/$key
	if [ ! -e "$dir/root.img" ]; then
		say "building the image of the test machine (once, some minutes): $dir"
		rm -rf "$CACHE/new"
		mkdir -p "$CACHE/new"
		build "$CACHE/new"
		find "$CACHE" -mindepth 1 -maxdepth 1 -type d ! -name new -exec rm -rf {} +
		mv "$CACHE/new" "$dir"
	fi
	printf '%s\n' "$dir"
}

main "$@"
