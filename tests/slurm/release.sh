#!/bin/sh
# Fetch the Slurm of another release of Debian, for tests with TRAINSHED_SLURM_RELEASE=FOLDER.
# Nothing is installed but patchelf: the tests mount the files over the installed Slurm, for
# themselves only.
#
#     tests/slurm/release.sh trixie FOLDER      # 24.11; sid: the newest
set -eu
suite=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
command -v patchelf > /dev/null || apt-get install -y -q patchelf
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$folder/debs"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] $site $suite main" > "$folder/apt/sources.list"
cat > "$folder/apt/apt.conf" << CONF
Dir::Etc::SourceList "$folder/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$folder/apt/lists";
Dir::State::Status "/dev/null";
Dir::Cache "$folder/apt";
APT::Sandbox::User "root";
CONF
export APT_CONFIG="$folder/apt/apt.conf"
apt-get update -q
slurm="slurmctld slurmd slurm-client slurm-wlm-basic-plugins"
# shellcheck disable=SC2086 - several words
libraries=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances $slurm | grep -E '^(lib|zlib)' | sort -u)
cd "$folder/debs"
# shellcheck disable=SC2086
apt-get download -q $slurm $libraries
for package in *.deb; do
    dpkg-deb -x "$package" "$folder"
done
libs=$folder/usr/lib/x86_64-linux-gnu
for program in "$folder"/usr/bin/s* "$folder"/usr/sbin/slurm*; do
    if patchelf --print-interpreter "$program" > /dev/null 2>&1; then
        patchelf --set-interpreter "$libs/ld-linux-x86-64.so.2" --force-rpath \
            --set-rpath "$libs/slurm-wlm:$libs" "$program"
    fi
done
patchelf --force-rpath --set-rpath "$libs" "$libs/slurm-wlm/libslurmfull.so"
rm -rf "$folder/apt" "$folder/debs"
"$folder/usr/sbin/slurmd-wlm" -V
