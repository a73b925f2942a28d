package desktop

import (
	"cmp"
	"embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/deskhand/deskhand/internal/supervise"
)

// openboxFiles are the configuration of openbox for homes that do not have one.
//
//go:embed openbox/rc.xml openbox/menu.xml openbox/menu-programs.xml
var openboxFiles embed.FS

// openboxConfigDir is a folder below the shared directory. It is the first of openbox's
// XDG_CONFIG_DIRS, because the distribution's files have a menu and keys that start
// programs.
const openboxConfigDir = "xdg"

// writeOpenboxConfig writes openboxFiles to the folder that openbox searches after
// the home.
func (p *programs) writeOpenboxConfig() error {
	dir := filepath.Join(p.dirs.shared, openboxConfigDir, "openbox")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("openbox configuration: %w", err)
	}
	menu := "menu.xml"
	if p.cfg.ProgramMenu {
		menu = "menu-programs.xml"
	}
	for from, to := range map[string]string{"rc.xml": "rc.xml", menu: "menu.xml"} {
		text, err := openboxFiles.ReadFile("openbox/" + from)
		if err != nil {
			return fmt.Errorf("openbox configuration: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o644); err != nil {
			return fmt.Errorf("openbox configuration: %w", err)
		}
	}
	// openbox uses the distribution's files if it cannot read these.
	if err := makeReadable(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("openbox configuration: %w", err)
	}
	return nil
}

func (p *programs) openboxEnviron(env []string) []string {
	system := cmp.Or(lookup(env, "XDG_CONFIG_DIRS"), "/etc/xdg") // XDG Base Directory specification
	return supervise.Environ(env, "XDG_CONFIG_DIRS="+filepath.Join(p.dirs.shared, openboxConfigDir)+":"+system)
}
