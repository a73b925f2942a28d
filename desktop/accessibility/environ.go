package accessibility

import "os"

// BrowserArg is an entry for desktop.Config.BrowserArgs. With it, Chromium offers the elements of
// pages.
const BrowserArg = "--force-renderer-accessibility"

// Environ returns entries for desktop.Config.Env. With them, programs offer their elements from
// their start: GTK 3, Qt, Firefox and, if its bridge is installed, Java.
func Environ() []string {
	set := []string{
		"GNOME_ACCESSIBILITY=1", "ACCESSIBILITY_ENABLED=1", // Firefox, Electron
		"QT_ACCESSIBILITY=1", "QT_LINUX_ACCESSIBILITY_ALWAYS_ON=1",
		"NO_AT_BRIDGE", "GTK_A11Y", // without a value: removed, because they switch the elements of GTK off
	}
	if _, err := os.Stat(javaBridge); err == nil {
		set = append(set, "JAVA_TOOL_OPTIONS=-Xbootclasspath/a:"+javaBridge+" -Djavax.accessibility.assistive_technologies=org.GNOME.Accessibility.AtkWrapper")
	}
	return set
}

// javaBridge is the path of the bridge from Java to the accessibility bus, in the package
// libatk-wrapper-java-jni of Debian and java-atk-wrapper of Fedora.
const javaBridge = "/usr/share/java/java-atk-wrapper.jar"
