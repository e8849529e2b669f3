package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNames(t *testing.T) {
	const (
		hosts      = "127.0.0.1 localhost\n::1 localhost\n10.0.0.1\tn1.cluster N1 # first\n127.0.1.1 n2\n10.0.0.3 n3\n127.0.0.1 n3\n# 10.0.0.4 n4\njunk n5\n10.0.0.6\n"
		filesOnly  = "passwd: files\nhosts: files # dns\n"
		nameserver = "search cluster\nnameserver 10.0.0.53\n"
	)
	all := []string{"n1", "n1.cluster", "n2", "n3", "n4", "n5"}
	for _, c := range []struct {
		name, nsswitch, resolv, self string
		unresolved, misresolved      []string
	}{
		{"the file alone", filesOnly, nameserver, "n1", []string{"n4", "n5"}, []string{"n2"}},
		{"DNS may know more", "hosts: files dns", nameserver, "n1", nil, []string{"n2"}},
		{"DNS without a server", "hosts: files dns", "search cluster\nnameserver\n#nameserver 10.0.0.53\n", "n1", []string{"n4", "n5"}, []string{"n2"}},
		{"no nsswitch.conf is files and DNS", "", nameserver, "n1", nil, []string{"n2"}},
		{"no nsswitch.conf and no server", "", "", "n1", []string{"n4", "n5"}, []string{"n2"}},
		{"another source may know more", "hosts: files sss", "", "n1", nil, []string{"n2"}},
		{"actions are no sources", "hosts: files [NOTFOUND=return]", "", "n1", []string{"n4", "n5"}, []string{"n2"}},
		{"its own name may be loopback", filesOnly, "", "n2", []string{"n4", "n5"}, nil},
		{"its own name is resolved by myhostname", "hosts: files myhostname", "", "n4", []string{"n5"}, []string{"n2"}},
	} {
		unresolved, misresolved := parseNames(hosts, c.nsswitch, c.resolv).check(c.self, all)
		assert.Equal(t, c.unresolved, unresolved, c.name)
		assert.Equal(t, c.misresolved, misresolved, c.name)
	}
}
