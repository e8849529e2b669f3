//go:build linux

package vm

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// drivers are the kernel modules that init needs, besides those that they need
// themselves.
var drivers = []string{"virtio_pci", "virtio_blk", "9pnet_virtio", "9p", "overlay", "crc32c_generic", "ext4"}

// cache is the folder that holds the kernel and, numbered in the order in which
// they are inserted, its modules. Other drivers make another folder.
func cache() (kernel, modules string, err error) {
	dir, err := os.UserCacheDir()
	dir = filepath.Join(dir, "mpiguard-vm", fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(strings.Join(drivers, " ")))))
	return filepath.Join(dir, "vmlinux"), filepath.Join(dir, "modules"), err
}

// Ready is nil where Run can work, and otherwise says why it cannot.
func Ready() error {
	if _, err := exec.LookPath(qemu); err != nil {
		return err
	}
	kernel, _, err := cache()
	if err != nil {
		return err
	}
	_, err = os.Stat(kernel)
	return err
}

// Fetch brings Debian's kernel into the cache of the user, unless one is there.
// It installs nothing.
func Fetch(ctx context.Context) error {
	kernel, modules, err := cache()
	if err != nil {
		return err
	}
	if _, err := os.Stat(kernel); err == nil {
		return nil
	}
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the virtual machine is an x86_64 one, this is %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	tree, err := os.MkdirTemp("", "mpiguard-kernel-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if err := download(ctx, tree); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(modules), os.MkdirAll(modules, 0o755)); err != nil {
		return err
	}
	if err := saveModules(ctx, tree, modules); err != nil {
		return err
	}
	image, err := filepath.Glob(tree + "/boot/vmlinuz-*")
	if err != nil || len(image) != 1 {
		return fmt.Errorf("one kernel image expected, not %q: %w", image, err)
	}
	elf, err := uncompressed(ctx, image[0])
	if err != nil {
		return err
	}
	// The kernel comes last and at once: where it is, all is.
	if err := os.WriteFile(kernel+".new", elf, 0o644); err != nil {
		return err
	}
	return os.Rename(kernel+".new", kernel)
}

// download unpacks the package of Debian's current kernel into a folder.
func download(ctx context.Context, tree string) error {
	const script = `
		set -e
		chmod 755 . # apt downloads as a user of its own
		current() { apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }'; }
		fetch() { name=$(current) && [ -n "$name" ] && apt-get download -qq "$name"; }
		fetch || { apt-get update -qq && fetch; }
		dpkg-deb -x linux-image-*.deb .`
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("download the kernel: %w\n%s", err, out)
	}
	return nil
}

// saveModules copies the drivers, each after what it depends on.
func saveModules(ctx context.Context, tree, to string) error {
	found := map[string]string{}
	err := filepath.WalkDir(tree+"/lib/modules", func(path string, _ fs.DirEntry, err error) error {
		name, _, isModule := strings.Cut(filepath.Base(path), ".ko")
		if isModule {
			found[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	saved := 0
	var save func(name string) error
	save = func(name string) error {
		path, ok := found[name]
		if !ok {
			return nil // saved before, or part of the kernel
		}
		delete(found, name)
		module, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".xz") {
			module, err = unxz(ctx, module)
		}
		if err != nil {
			return err
		}
		needs, err := depends(module)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, n := range needs {
			if err := save(n); err != nil {
				return err
			}
		}
		saved++
		return os.WriteFile(filepath.Join(to, fmt.Sprintf("%02d-%s.ko", saved, name)), module, 0o644)
	}
	for _, d := range drivers {
		if err := save(d); err != nil {
			return err
		}
	}
	return nil
}

// depends are the names of the modules that a module needs.
func depends(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no kernel module")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(entry, []byte("depends=")); ok {
			return strings.FieldsFunc(string(list), func(r rune) bool { return r == ',' }), nil
		}
	}
	return nil, nil
}

// uncompressed is the ELF image inside a bzImage (Documentation/arch/x86/boot.rst):
// qemu boots it directly, and the emulated processor has not to unpack it.
func uncompressed(ctx context.Context, image string) ([]byte, error) {
	b, err := os.ReadFile(image)
	if err != nil {
		return nil, err
	}
	const setupSects, payloadOffset, payloadLength, header = 0x1f1, 0x248, 0x24c, 0x250
	if len(b) < header {
		return nil, fmt.Errorf("%s is no kernel", image)
	}
	start := (int(b[setupSects])+1)*512 + int(binary.LittleEndian.Uint32(b[payloadOffset:]))
	length := int(binary.LittleEndian.Uint32(b[payloadLength:])) - 4 // its last 4 bytes are the size unpacked
	if length < 0 || start+length > len(b) {
		return nil, fmt.Errorf("%s is cut off", image)
	}
	return unxz(ctx, b[start:start+length])
}

func unxz(ctx context.Context, data []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "xz", "-dc")
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("xz: %w", err)
	}
	return out, nil
}
