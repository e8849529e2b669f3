package doctor

import (
	"net/netip"
	"slices"
	"strings"
)

// names is how a node resolves host names without asking another one.
type names struct {
	addresses map[string][]netip.Addr // of /etc/hosts, by name in lower case
	// others: there are sources beside the file, which are not asked; the node's
	// own name is resolved in any case where own is set.
	others, own bool
}

// parseNames reads hosts(5), the line hosts of nsswitch.conf(5) and
// resolv.conf(5); "" for one that is not there.
func parseNames(hosts, nsswitch, resolv string) names {
	n := names{addresses: map[string][]netip.Addr{}}
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		address, err := netip.ParseAddr(f[0])
		if err != nil {
			continue
		}
		for _, name := range f[1:] {
			name = strings.ToLower(name)
			n.addresses[name] = append(n.addresses[name], address)
		}
	}
	for _, source := range hostSources(nsswitch) {
		switch {
		case source == "files" || strings.HasPrefix(source, "["): // [NOTFOUND=return]
		case source == "dns":
			n.others = n.others || hasNameserver(resolv)
		case source == "myhostname":
			n.own = true
		default:
			n.others = true
		}
	}
	return n
}

// hostSources are what resolves host names. Without the line that is the file,
// then DNS.
func hostSources(nsswitch string) []string {
	for line := range strings.Lines(nsswitch) {
		line, _, _ = strings.Cut(line, "#")
		if sources, ok := strings.CutPrefix(strings.TrimSpace(line), "hosts:"); ok {
			return strings.Fields(sources)
		}
	}
	return []string{"files", "dns"}
}

// hasNameserver reports whether there is a DNS server to ask. Without a line a
// resolver tries one on the node itself, which is as good as none.
func hasNameserver(resolv string) bool {
	for line := range strings.Lines(resolv) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			return true
		}
	}
	return false
}

// check returns which of the hosts of a job cannot be resolved on the host self,
// and which others the file takes for this node. A name that may be known to DNS
// or another source is taken to be: none is asked.
func (n names) check(self string, hosts []string) (unresolved, misresolved []string) {
	for _, host := range hosts {
		addresses := n.addresses[strings.ToLower(host)]
		switch {
		case len(addresses) == 0:
			if !n.others && (host != self || !n.own) {
				unresolved = append(unresolved, host)
			}
		case host != self && !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !a.IsLoopback() }):
			misresolved = append(misresolved, host)
		}
	}
	return unresolved, misresolved
}
