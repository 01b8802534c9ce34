# What this host is: a line a fact, fields separated by tabs. KEY = VALUE... is known, KEY - is proven absent, KEY ? REASON could not be learned.
# Changes nothing, writes no file, and sends certificates but never a key. Runs as root in any POSIX sh (dash, bash, busybox ash), on Debian, Ubuntu, RHEL
# and its relatives, and Flatcar. The only argument is a folder to read instead of /.
#
# A question that fails is a fact that is unknown, so each is asked on the left of ||, where `set -e` does not end the script. Lists are told item by item
# and closed by a line with their name: without it the list was cut off.

set -eu
root=${1:-}
kubernetes=$root/etc/kubernetes
pki=$kubernetes/pki
tab=$(printf '\t')
newline='
'
WAIT=5 # seconds for any one program, and for an endpoint

if [ "$(id -u)" != 0 ]; then
    echo 'the probe needs root: what it may not read would look absent' >&2
    exit 77
fi

fact() { # KEY KIND FIELD...: one line, whatever the fields contain
    text="$1$tab$2"
    shift 2
    for field in "$@"; do
        case $field in *[[:cntrl:]]*) field=$(printf %s "$field" | tr -s '\001-\037\177' ' ') ;; esac
        text="$text$tab$field"
    done
    printf '%s\n' "$text"
}
known() { key=$1 && shift && fact "$key" = "$@"; }
absent() { fact "$1" -; }
unknown() { fact "$1" '?' "$2"; }

first_line() { # FILE; not by `read`, which takes one byte after the other, and /proc/sys gives no second one
    head -n 1 -- "$1" 2>/dev/null
}
tell_file() { # KEY FILE: its first line
    if [ ! -e "$2" ]; then
        absent "$1"
    elif value=$(first_line "$2"); then
        known "$1" "$value"
    else
        unknown "$1" "$2 cannot be read"
    fi
}
tell_running_for() { # the seconds since PID 1 began, in hundredths (USER_HZ) after its name: in a container /proc/uptime is that of its machine
    up=$(first_line "$root/proc/uptime") && began=$(first_line "$root/proc/1/stat") || return 1
    set -- ${began##*) }
    [ $# -ge 20 ] || return 1
    shift 19
    known running_for $((${up%%.*} - $1 / 100))
}
digest() { # FILE
    sum=$(sha256sum -- "$1" 2>/dev/null) && printf '%s\n' "${sum%% *}"
}

# --- the machine ---

tell_os() {
    for file in "$root/etc/os-release" "$root/usr/lib/os-release"; do
        [ -r "$file" ] || continue
        known os "$(os_field ID "$file")" "$(os_field VERSION_ID "$file")" "$(os_field ID_LIKE "$file")" "$(os_field PRETTY_NAME "$file")"
        return
    done
    unknown os 'there is no os-release file'
}
os_field() { # NAME FILE; read, not sourced: it is data
    sed -n "s/^$1=//p" "$2" | tail -n 1 | tr -d "\"'"
}
tell_output() { # KEY PROGRAM...
    key=$1
    shift
    if value=$(timeout $WAIT "$@" 2>/dev/null); then known "$key" "$value"; else unknown "$key" "$* failed"; fi
}
tell_ufw() {
    if [ ! -e "$root/etc/ufw/ufw.conf" ]; then
        absent ufw
    elif grep -qi '^ENABLED=yes' "$root/etc/ufw/ufw.conf"; then
        known ufw on
    else
        known ufw off
    fi
}
tell_selinux_at_boot() { # whether it enforces after the next boot
    if [ ! -e "$root/etc/selinux/config" ]; then
        absent selinux_at_boot
    elif [ ! -r "$root/etc/selinux/config" ]; then
        unknown selinux_at_boot "$root/etc/selinux/config cannot be read"
    elif grep -qi '^SELINUX=[[:space:]]*enforcing' "$root/etc/selinux/config"; then
        known selinux_at_boot enforcing
    else
        known selinux_at_boot otherwise
    fi
}
tell_nftables() { # whether a rule that is loaded drops or rejects; the rules of a host that has joined are kube-proxy's, and too many to be listed
    if ! command -v nft >/dev/null; then
        unknown nftables 'there is no nft on the host'
    elif [ -e "$kubernetes/kubelet.conf" ]; then
        unknown nftables 'it is not asked of a host that has joined'
    elif ! rules=$(timeout $WAIT nft list ruleset 2>/dev/null); then
        unknown nftables 'nft failed'
    elif printf '%s\n' "$rules" | grep -Eq '(^|[[:space:];{])(drop|reject)([[:space:];}]|$)'; then
        known nftables drops
    else
        known nftables accepts
    fi
}
tell_swap() {
    if [ ! -e "$root/proc/swaps" ]; then
        known swap off
    elif lines=$(wc -l <"$root/proc/swaps"); then
        if [ "$lines" -gt 1 ]; then known swap on; else known swap off; fi
    else
        return 1
    fi
    if [ ! -e "$root/etc/fstab" ]; then
        absent swap_in_fstab
    else
        known swap_in_fstab "$(awk '$1 !~ /^#/ && $3 == "swap" { count++ } END { print count + 0 }' "$root/etc/fstab")"
    fi
}
tell_module() { # NAME
    if [ -d "$root/sys/module/$1" ]; then
        known "module.$1" loaded
    elif grep -qs "/$1\.ko" "$root/lib/modules/$(uname -r)/modules.builtin"; then
        known "module.$1" builtin
    elif [ -d "$root/sys/module" ]; then
        absent "module.$1"
    else
        unknown "module.$1" '/sys is not mounted'
    fi
}
tell_sysctl() { # NAME: its value, and whether this host may change it
    file=$root/proc/sys/$(printf %s "$1" | tr . /)
    if [ ! -e "$file" ]; then
        absent "sysctl.$1"
    elif value=$(first_line "$file"); then
        if [ -w "$file" ]; then known "sysctl.$1" "$value" writable; else known "sysctl.$1" "$value" fixed; fi
    else
        unknown "sysctl.$1" "$file cannot be read"
    fi
}

tell_addresses() { # of its network interfaces, but those of kube-proxy and the cache for DNS, who have those of Services
    if ! command -v ip >/dev/null; then
        unknown addresses 'there is no ip on the host'
    elif lines=$(timeout $WAIT ip -o addr show 2>/dev/null); then
        known addresses "$(printf '%s\n' "$lines" | awk '$2 != "kube-ipvs0" && $2 != "nodelocaldns" && $3 ~ /^inet/ { split($4, part, "/"); printf "%s ", part[1] }')"
    else
        unknown addresses 'ip failed'
    fi
}
tell_ssh_host_key() { # the public half
    file=$root/etc/ssh/ssh_host_ed25519_key.pub
    if [ ! -e "$file" ]; then
        absent ssh_host_key
    elif value=$(cut -d ' ' -f 2 <"$file"); then
        known ssh_host_key "$value"
    else
        unknown ssh_host_key "$file cannot be read"
    fi
}

# --- programs, packages, units ---

tell_program() { # NAME ARGUMENT...: its path and version
    name=$1
    shift
    if ! path=$(command -v "$name"); then
        absent "program.$name"
    elif answer=$(timeout $WAIT "$path" "$@" 2>&1 </dev/null); then
        known "program.$name" "$path" "$(printf '%s\n' "$answer" | tr ' \t' '\n\n' | grep -E '^v?[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)"
    else
        unknown "program.$name" "$path $* failed: $(printf %s "$answer" | head -c 200)"
    fi
}
tell_packages() { # NAME...
    if [ -e "$root/var/lib/dpkg/status" ] && command -v dpkg-query >/dev/null; then
        # the status of a query for several names is 1 where one of them is not known to dpkg
        # shellcheck disable=SC2016  # the fields are dpkg's
        timeout $WAIT dpkg-query -W -f '${Package}\t${db:Status-Abbrev}\t${Version}\n' "$@" 2>/dev/null |
            awk -F '\t' '$2 ~ /^.i/ { printf "package.%s\t=\t%s\t%s\n", $1, $3, ($2 ~ /^h/ ? "held" : "free") }'
        known packages dpkg
    elif command -v rpm >/dev/null; then
        for name in "$@"; do
            version=$(timeout $WAIT rpm -q --qf '%{VERSION}-%{RELEASE}' "$name" 2>/dev/null) || continue
            if grep -qsE "(^|[^a-z])$name([^a-z.]|\$)" "$root/etc/dnf/plugins/versionlock.list" "$root/etc/yum/pluginconf.d/versionlock.list" \
                "$root/etc/dnf/versionlock.toml"; then
                known "package.$name" "$version" held
            else
                known "package.$name" "$version" free
            fi
        done
        known packages rpm
    else
        absent packages
    fi
}
tell_units() { # NAME...
    if ! shown=$(timeout $WAIT systemctl show --no-pager -p Id -p LoadState -p ActiveState -p SubState -p UnitFileState -p NRestarts "$@" 2>&1); then
        unknown units "systemctl failed: $(printf %s "$shown" | head -c 200)"
        return
    fi
    printf '%s\n\n' "$shown" | awk '
        function tell() {
            if (v["Id"] == "") return
            if (v["LoadState"] == "not-found") printf "unit.%s\t-\n", v["Id"]
            else printf "unit.%s\t=\t%s\t%s\t%s\t%s\t%s\n", v["Id"], v["LoadState"], v["ActiveState"], v["SubState"], v["UnitFileState"], v["NRestarts"]
            v["Id"] = v["LoadState"] = v["ActiveState"] = v["SubState"] = v["UnitFileState"] = v["NRestarts"] = ""
        }
        /^$/ { tell(); next }
        { at = index($0, "="); v[substr($0, 1, at - 1)] = substr($0, at + 1) }
        END { tell() }'
    known units systemd
}

# --- what runs and listens ---

tell_processes() { # NAME...: those of them that run, by the first 15 bytes of their names, which is what the kernel keeps
    names=$(cat "$root"/proc/[0-9]*/comm 2>/dev/null) || [ -n "$names" ] || return 1 # one that ends meanwhile cannot be read
    running=
    for name in "$@"; do
        printf '%s\n' "$names" | grep -qxF "$(printf %.15s "$name")" || continue
        case $name in kubeadm | rke2 | k3s* | k0s | kubelite) runs_on_the_host "$name" || continue ;; esac
        running="$running$name "
    done
    known processes "$running"
}
runs_on_the_host() { # NAME: not only in containers, which have namespaces of their own: what runs there changes nothing here
    own=$(readlink "$root/proc/1/ns/pid" 2>/dev/null) || own=
    for file in $(grep -lxF "$1" "$root"/proc/[0-9]*/comm 2>/dev/null); do
        its=$(readlink "${file%comm}ns/pid" 2>/dev/null) || its=
        if [ -z "$own" ] || [ -z "$its" ] || [ "$its" = "$own" ]; then return 0; fi
    done
    return 1
}
listening_ports() { # of TCP, decimal, from the kernel's hexadecimal table: 0A is LISTEN
    cat "$root/proc/net/tcp" "$root/proc/net/tcp6" 2>/dev/null | awk '
        $4 == "0A" {
            count = split($2, part, ":")
            port = 0
            for (i = 1; i <= 4; i++) port = port * 16 + index("0123456789ABCDEF", substr(part[count], i, 1)) - 1
            if (!(port in seen)) { seen[port] = 1; printf "%d ", port }
        }'
}
tell_ports() {
    ports=
    [ -r "$root/proc/net/tcp" ] || return 1
    ports=" $(listening_ports)"
    known ports "$ports"
}

# --- Kubernetes on disk ---

certificates() { # PEM on stdin: the certificates in it as base64, separated by spaces; whatever else is in it stays here
    head -c 65536 | awk '
        /-----BEGIN / { inside = /-----BEGIN CERTIFICATE-----/; body = ""; next }
        /-----END / { if (inside && body != "") printf "%s ", body; inside = 0; next }
        inside { sub(/\r$/, ""); body = body $0 }'
}
tell_certificate() { # KEY FILE
    if [ ! -e "$2" ]; then
        absent "certificate.$1"
    elif [ -r "$2" ] && found=$(certificates <"$2") && [ -n "$found" ]; then
        known "certificate.$1" "$found"
    else
        unknown "certificate.$1" "no certificate can be read from $2"
    fi
}
tell_presence() { # KEY FILE
    if [ -e "$2" ]; then known "$1" present; else absent "$1"; fi
}
tell_digest() { # NAME FILE
    if [ ! -e "$2" ]; then
        absent "digest.$1"
    elif value=$(digest "$2"); then
        known "digest.$1" "$value"
    else
        unknown "digest.$1" "$2 cannot be read"
    fi
}
kubeconfig_fields() { # FILE: a line for each field that is told, empty where there is none; one program for all, since each takes milliseconds
    awk '
        { sub(/^[ -]*/, ""); at = index($0, ":"); name = substr($0, 1, at - 1) }
        at && !(name in value) { text = substr($0, at + 1); sub(/^ */, "", text); gsub(/["\047]/, "", text); value[name] = text }
        END {
            count = split("server certificate-authority-data certificate-authority client-certificate-data client-certificate", names, " ")
            for (i = 1; i <= count; i++) print value[names[i]]
        }' "$1"
}
tell_kubeconfig() { # NAME: its server, authorities, client certificates, and whether these are inline or in a file
    file=$kubernetes/$1.conf
    if [ ! -e "$file" ]; then
        absent "kubeconfig.$1"
        return
    fi
    if [ ! -r "$file" ] || [ ! -f "$file" ]; then
        unknown "kubeconfig.$1" "$file cannot be read"
        return
    fi
    {
        IFS= read -r server
        IFS= read -r authority_data
        IFS= read -r authority_file
        IFS= read -r client_data
        IFS= read -r client_file
    } <<EOF
$(kubeconfig_fields "$file")
EOF
    authority=$(printf %s "$authority_data" | base64 -d 2>/dev/null | certificates) || authority=
    if [ -z "$authority" ] && [ -r "$root$authority_file" ] && [ -n "$authority_file" ]; then authority=$(certificates <"$root$authority_file"); fi
    client=$(printf %s "$client_data" | base64 -d 2>/dev/null | certificates) || client=
    where=inline
    if [ -z "$client" ]; then
        where=file
        if [ -n "$client_file" ] && [ -r "$root$client_file" ]; then client=$(certificates <"$root$client_file"); fi
    fi
    known "kubeconfig.$1" "$server" "$authority" "$client" "$where"
}
flags() { # FILE: the flags of the program in a static pod's manifest, one a line, in quotes where they are in the file
    sed -n "s/^ *- *\([\"']\{0,1\}--.*\)/\1/p" "$1"
}
flag() { # FILE NAME
    [ -r "$1" ] && sed -n "/^ *- *[\"']\{0,1\}--$2=/{s/[\"']//g;s/^ *- *--$2=//p;q;}" "$1"
}
environment() { # FILE NAME: what etcd reads where a flag is not set; kubeadm always sets the one of its data
    [ -r "$1" ] && awk -v wanted="$2" '
        { text = $0; sub(/^[ -]*/, "", text); at = index(text, ":"); key = substr(text, 1, at - 1)
          value = substr(text, at + 1); gsub(/^ +|["\047]| +$/, "", value) }
        /^ *- / { name = given = "" } # an item begins
        key == "name" { name = value }
        key == "value" { given = value }
        name == wanted && given != "" { print given; exit }' "$1"
}
tell_manifests() { # every file that the kubelet reads: those without a dot in front
    if [ ! -d "$kubernetes/manifests" ]; then
        absent manifests
        return
    fi
    count=0
    for file in "$kubernetes"/manifests/*; do
        [ -f "$file" ] || continue
        count=$((count + 1))
        name=${file##*/}
        if sum=$(digest "$file"); then
            images=$(sed -n "/^[ -]*image: */{s///;s/[\"']//g;p;}" "$file" | tr '\n' ' ')
            set -f
            IFS=$newline
            # shellcheck disable=SC2046  # a field a flag
            set -- $(flags "$file")
            unset IFS
            set +f
            known "manifest.$name" "$sum" "$images" "$@"
        else
            unknown "manifest.$name" "$file cannot be read"
        fi
    done
    known manifests "$count"
}
etcd_says_lost() { # emptied under a member, the folder is begun anew by the next start. That finds no log and ends, since the members are others by now than
    # when the host joined (etcd 3.6, bootstrap.go), or with the leader's first heartbeat (raft 3.6, log.go). It is so until an etcd serves (embed/serve.go).
    # Only etcd's own words count, by the level that begins a line: names of objects, which anybody may choose, come later in it, their quotes escaped.
    set -f
    IFS=$newline
    # shellcheck disable=SC2046  # a field a file
    set -- $(set +f && ls -tr "$root"/var/log/pods/kube-system_etcd-*/etcd/*.log* 2>/dev/null)
    unset IFS
    set +f
    last=
    for file in "$@"; do
        case $file in *.log.*) last= && continue ;; esac # so full that it was put aside: who wrote that served
        said=$(grep -h -e '^[^{]*{"level":"info",.*"msg":"ready to serve client requests"' -e '^[^{]*{"level":"fatal",.*"error":"error validating peerURLs' \
            -e '^[^{]*{"level":"panic",.*"msg":"tocommit(.*Was the raft log corrupted, truncated, or lost' "$file" | tail -n 1) || said=
        [ -z "$said" ] || last=$said
    done
    case $last in '' | *'{"level":"info",'*) return 1 ;; esac
}
etcd_folders() { # sets `data` and `wal`, etcd's folders on the host: its manifest may name others, and mount them from elsewhere
    if [ ! -e "$kubernetes/manifests/etcd.yaml" ]; then # the first of those where the cluster may have them that has anything, or does not tell
        data= wal=
        for each in ${folders:-/var/lib/etcd}; do
            [ -n "$data" ] || data=$each
            if [ -e "$root$each" ] && { ! found=$(ls -A "$root$each") || [ -n "$found" ]; }; then data=$each && break; fi
        done
        return
    fi
    data=$(flag "$kubernetes/manifests/etcd.yaml" data-dir) || data=
    data=$(on_host "${data:-/var/lib/etcd}")
    wal=$(flag "$kubernetes/manifests/etcd.yaml" wal-dir) || wal=
    [ -n "$wal" ] || wal=$(environment "$kubernetes/manifests/etcd.yaml" ETCD_WAL_DIR) || wal=
    if [ -n "$wal" ]; then wal=$(on_host "$wal"); fi
}
on_host() { # FOLDER-IN-THE-CONTAINER: where etcd's manifest mounts it from; the same where it mounts nothing there
    if [ ! -r "$kubernetes/manifests/etcd.yaml" ]; then
        printf '%s\n' "$1"
        return
    fi
    awk -v folder="$1" '
        { text = $0; sub(/^[ -]*/, "", text); at = index(text, ":"); name = substr(text, 1, at - 1)
          value = substr(text, at + 1); gsub(/^ +|["\047]| +$/, "", value) }
        /^ *- / { mount = path = volume = "" } # an item begins
        name == "mountPath" { mount = value }
        name == "path" { path = value }
        name == "name" { volume = value }
        mount != "" && volume != "" { mounted[volume] = mount }
        path != "" && volume != "" { source[volume] = path }
        END {
            for (volume in mounted)
                if ((volume in source) && index(folder "/", mounted[volume] "/") == 1 && length(mounted[volume]) > length(best)) {
                    best = mounted[volume]; from = source[volume]
                }
            print (best == "" ? folder : from substr(folder, length(best) + 1))
        }' "$kubernetes/manifests/etcd.yaml"
}
etcd_log() { # its first file; the folders are known
    for file in "$root${wal:-$data/member/wal}"/*.wal; do
        [ -e "$file" ] || return 1
        printf '%s\n' "$file"
        return
    done
}
tell_etcd_data() { # without its log a member starts as one that has never voted; with it no vote is lost, whatever else is (etcd 3.6, bootstrap.go)
    if [ ! -d "$root$data" ]; then
        absent etcd_data
    elif ! found=$(ls -A "$root$data"); then
        unknown etcd_data "$data cannot be read"
    elif [ -z "$found" ]; then
        known etcd_data empty
    elif etcd_says_lost; then
        known etcd_data begun-anew
    elif etcd_log >/dev/null; then
        if [ -s "$root$data/member/snap/db" ]; then known etcd_data member; else known etcd_data incomplete; fi
    elif [ -n "$wal" ]; then # which the container may have mounted from elsewhere
        known etcd_data incomplete
    else
        known etcd_data without-log
    fi
}
tell_etcd_identity() { # the ids of member and cluster, in the first records of its log; entries, which hold Secrets, come after these 56 bytes
    if ! file=$(etcd_log); then
        absent etcd_identity
    elif head=$(head -c 56 -- "$file" | base64 | tr -d '\n') && [ -n "$head" ]; then
        known etcd_identity "$head"
    else
        unknown etcd_identity "${file#"$root"} cannot be read"
    fi
}
tell_kubeadm_leftovers() { # folders in which `kubeadm upgrade` prepares manifests, and which it removes when it has ended well
    found=
    for folder in "$kubernetes"/tmp/kubeadm-upgraded-manifests*; do
        if [ -d "$folder" ]; then found="$found${folder##*/} "; fi
    done
    known kubeadm_leftovers "$found"
}
tell_initialization() { # the mark that quorate sets before `kubeadm init` and takes away when that has ended well
    if [ -e "$kubernetes/quorate/initializing" ]; then known initialization begun; else absent initialization; fi
}
tell_kubelet_flags() {
    file=$root/var/lib/kubelet/kubeadm-flags.env
    if [ ! -e "$file" ]; then
        absent kubelet_flags
    else
        value=$(sed -n 's/^KUBELET_KUBEADM_ARGS=//p' "$file") || return 1
        known kubelet_flags "$value"
    fi
}

# --- endpoints ---

ask() { # KEY PORT CURL-ARGUMENT...: status and body; absent where nothing listens
    key=$1
    port=$2
    shift 2
    case $ports in
    '' | *" $port "*) ;;
    *)
        absent "$key"
        return
        ;;
    esac
    if ! command -v curl >/dev/null; then
        unknown "$key" 'there is no curl on the host'
        return
    fi
    status=0
    answer=$(curl -sS --noproxy '*' --max-time $WAIT -w '\n%{http_code}' "$@" 2>&1) || status=$?
    case $status in
    0)
        body=$(printf '%s\n' "${answer%"$newline"*}" | grep -v '^\[+\]' | head -c 400) || body=
        known "$key" "${answer##*"$newline"}" "$body"
        ;;
    7) absent "$key" ;; # refused
    *) unknown "$key" "curl ended with status $status: $(printf %s "$answer" | head -c 200)" ;;
    esac
}
ask_kubelet() {
    config=$root/var/lib/kubelet/config.yaml
    port=$(sed -n 's/^healthzPort: *//p' "$config" 2>/dev/null) || port=
    address=$(sed -n 's/^healthzBindAddress: *//p' "$config" 2>/dev/null | tr -d "\"'") || address=
    case $address in '' | 0.0.0.0 | ::) address=127.0.0.1 ;; *:*) address="[$address]" ;; esac
    ask kubelet_healthz "${port:-10248}" "http://$address:${port:-10248}/healthz"
}
ask_api_server() { # KEY PATH; by the name that every kubeadm certificate has, with the certificate that the API server itself uses for kubelets
    manifest=$kubernetes/manifests/kube-apiserver.yaml
    if [ ! -e "$manifest" ]; then
        absent "$1"
        return
    fi
    port=$(flag "$manifest" secure-port) || port=
    port=${port:-6443}
    address=$(flag "$manifest" bind-address) || address=
    case $address in '' | 0.0.0.0 | ::) address=127.0.0.1 ;; *:*) address="[$address]" ;; esac
    client=$pki/apiserver-kubelet-client
    key=$1
    path=$2
    if [ -r "$client.key" ]; then set -- --cert "$client.crt" --key "$client.key"; else set --; fi
    ask "$key" "$port" "$@" --cacert "$pki/ca.crt" --resolve "kubernetes:$port:$address" "https://kubernetes:$port$path"
}
ask_etcd() { # where it serves metrics, which needs no certificate; otherwise where it serves clients
    manifest=$kubernetes/manifests/etcd.yaml
    if [ ! -e "$manifest" ]; then
        absent etcd_health
        return
    fi
    url=$(flag "$manifest" listen-metrics-urls | tr ',' '\n' | grep '^http://' | head -n 1) || url=
    if [ -n "$url" ]; then
        port=${url##*:}
        ask etcd_health "${port%%/*}" "${url%/}/health"
    else
        ask etcd_health 2379 --cacert "$pki/etcd/ca.crt" --cert "$pki/etcd/server.crt" --key "$pki/etcd/server.key" https://127.0.0.1:2379/health
    fi
}

# --- the questions ---

tell_os || unknown os 'os-release cannot be read'
tell_output kernel uname -r
tell_output architecture uname -m
tell_output hostname uname -n
tell_output fqdn hostname -f
tell_output clock date +%s
tell_file machine_id "$root/etc/machine-id"
tell_file product_uuid "$root/sys/class/dmi/id/product_uuid"
tell_ssh_host_key
tell_addresses
tell_running_for || unknown running_for '/proc cannot be read'
tell_file selinux_enforcing "$root/sys/fs/selinux/enforce"
tell_selinux_at_boot
tell_ufw
tell_nftables
tell_swap || unknown swap '/proc/swaps cannot be read'
for name in overlay br_netfilter nf_conntrack; do tell_module $name || unknown module.$name 'the probe failed'; done
for name in net.ipv4.ip_forward net.ipv6.conf.all.accept_ra net.ipv6.conf.all.forwarding net.bridge.bridge-nf-call-iptables net.bridge.bridge-nf-call-ip6tables \
    net.netfilter.nf_conntrack_max fs.inotify.max_user_instances fs.inotify.max_user_watches vm.overcommit_memory kernel.panic kernel.panic_on_oops; do
    tell_sysctl $name
done

tell_packages containerd containerd.io kubelet kubeadm kubectl || unknown packages 'the package manager did not answer'
tell_units containerd.service kubelet.service firewalld.service ufw.service nftables.service nm-cloud-setup.service || unknown units 'systemd did not answer'

tell_processes kubeadm kubelet containerd etcd kube-apiserver kube-controller-manager kube-scheduler rke2 k3s-server k3s-agent k0s kubelite || unknown processes '/proc cannot be read'
tell_ports || unknown ports '/proc/net/tcp cannot be read'

for name in admin super-admin kubelet bootstrap-kubelet controller-manager scheduler; do
    tell_kubeconfig $name || unknown kubeconfig.$name "it cannot be understood"
done
for name in ca front-proxy-ca etcd/ca apiserver apiserver-kubelet-client apiserver-etcd-client front-proxy-client etcd/server etcd/peer \
    etcd/healthcheck-client; do
    tell_certificate $name "$pki/$name.crt"
done
tell_certificate kubelet "$root/var/lib/kubelet/pki/kubelet-client-current.pem"
for name in ca front-proxy-ca etcd/ca sa; do tell_presence key.$name "$pki/$name.key"; done
tell_digest sa.pub "$pki/sa.pub"
tell_digest kubelet_configuration "$root/var/lib/kubelet/config.yaml"
tell_digest containerd_configuration "$root/etc/containerd/config.toml"
tell_kubelet_flags || unknown kubelet_flags 'kubeadm-flags.env cannot be read'
tell_manifests || unknown manifests 'the folder cannot be read'
etcd_folders || data=/var/lib/etcd wal=
known etcd_folder "$data"
if [ -n "$wal" ]; then known etcd_log_folder "$wal"; else absent etcd_log_folder; fi
tell_etcd_data || unknown etcd_data 'the folder cannot be read'
tell_etcd_identity || unknown etcd_identity "etcd's log cannot be read"
tell_initialization
tell_kubeadm_leftovers || unknown kubeadm_leftovers 'the folder cannot be read'

# At once, as each may take its time; their lines are short enough (PIPE_BUF) not to run into each other, which is why they come last.
tell_program containerd --version &
tell_program kubelet --version &
tell_program kubeadm version -o short &
tell_program kubectl version --client=true &
ask_kubelet &
ask_api_server api_server_livez /livez &
ask_api_server api_server_readyz /readyz &
ask_etcd &
wait
known end
