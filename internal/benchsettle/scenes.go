package main

// scene is a program and what is done with it.
type scene struct {
	name  string
	app   string
	args  []string
	page  string // a part of the page of a browser
	steps []string
}

const swing = `import javax.swing.*;
class Save {
  public static void main(String[] a) {
    SwingUtilities.invokeLater(() -> {
      JFrame f = new JFrame("Save"); JTextArea t = new JTextArea(20, 60); f.add(t);
      JMenuBar b = new JMenuBar(); JMenu m = new JMenu("File"); m.setMnemonic('F'); JMenuItem i = new JMenuItem("Save");
      i.setAccelerator(KeyStroke.getKeyStroke("control S"));
      i.addActionListener(e -> new JFileChooser("/usr/share").showSaveDialog(f));
      m.add(i); b.add(m); f.setJMenuBar(b); f.pack(); f.setVisible(true);
    });
  }
}`

// page is the page of browsers, with a part that moves.
const page = `<!doctype html><title>page</title><style>
@keyframes turn { to { transform: rotate(360deg) } }
#spin { width: 16px; height: 16px; border: 3px solid #ccc; border-top-color: #00f; border-radius: 50%%; animation: turn 1s linear infinite }
</style><button style="width: 200px; height: 60px" onclick="out.innerHTML += '<h1>shown</h1>'">show</button>
<p><input autofocus></p><div style="height: 160px">%s</div><div id=out></div>`

const (
	spinner = `<div id=spin></div>`
	clock   = `<p id=c></p><script>setInterval(() => c.textContent = new Date().toISOString(), 100)</script>`
	seconds = `<p id=c></p><script>const show = () => c.textContent = new Date().toString(); show(); setInterval(show, 1000)</script>`
	video   = `<canvas id=c width=160 height=120></canvas><script>const g = c.getContext('2d'), any = n => Math.random() * n
setInterval(() => { for (let i = 0; i < 300; i++) { g.fillStyle = 'hsl(' + any(360) + ' 90% 50%)'; g.fillRect(any(160), any(120), 9, 9) } }, 40)</script>`
)

// ownStore keeps Chromium from asking for the password of the user's keyring.
var ownStore = []string{"--password-store=basic"}

const show = "click 120 140" // the button of the page

var office = []string{"press alt+f", "press Escape", "press ctrl+s", "press Escape"}

var scenes = []scene{
	{name: "xterm", app: "xterm", steps: []string{"type ls", "press Return", "type grep -rl xyzzy /usr/include; echo done\n"}},
	{name: "xfce4-terminal", app: "xfce4-terminal", steps: []string{"type ls", "press Return", "press ctrl+shift+t", "press F10", "press Escape"}},
	{name: "mousepad (GTK 3)", app: "mousepad", steps: []string{"type hello world", "press F10", "press Escape", "press ctrl+o", "press Escape", "press ctrl+f"}},
	{name: "gnome-text-editor (GTK 4)", app: "gnome-text-editor", steps: []string{"type hello", "press F10", "press Escape", "press ctrl+o", "press Escape"}},
	{name: "Thunar (GTK 3)", app: "thunar", args: []string{"/usr"}, steps: []string{"press F10", "press Escape", "press alt+Return", "press Escape"}},
	{name: "featherpad (Qt 5)", app: "featherpad", steps: []string{"type hello", "press ctrl+o", "press Escape", "press ctrl+f", "press alt+f"}},
	{name: "kcalc (Qt 5)", app: "kcalc", steps: []string{"type 7", "type +", "type 35", "press Return", "press alt+s", "press Escape"}},
	{name: "Writer", app: "soffice", args: []string{"--writer", "--norestore", "--nologo"}, steps: append([]string{"type hello world", "press ctrl+h", "press Escape"}, office...)},
	{name: "Calc", app: "soffice", args: []string{"--calc", "--norestore", "--nologo"}, steps: append([]string{"type 12", "press Return", "press ctrl+1", "press Escape"}, office...)},
	{name: "GIMP (GTK 2)", app: "gimp", args: []string{"--no-splash"}, steps: []string{"press ctrl+n", "press Return", "press ctrl+shift+e", "type /tmp/benchsettle.png", "press Return", "press Escape", "press alt+f"}},
	{name: "Firefox", app: "firefox-esr", steps: []string{show, show, "press ctrl+t", "press ctrl+w", "press F5"}},
	{name: "Chromium", app: "chromium", args: ownStore, steps: []string{show, show, "press ctrl+t", "press ctrl+w", "press F5"}},
	{name: "Chromium, spinner", app: "chromium", args: ownStore, page: spinner, steps: []string{show, show, "press ctrl+t"}},
	{name: "Chromium, clock", app: "chromium", args: ownStore, page: clock, steps: []string{show, show}},
	{name: "Chromium, clock of seconds", app: "chromium", args: ownStore, page: seconds, steps: []string{show, show}},
	{name: "Chromium, small video", app: "chromium", args: ownStore, page: video, steps: []string{show, show}},
	{name: "Swing", app: "java", steps: []string{"type hello", "press alt+f", "press Escape", "press ctrl+s", "press Escape"}},
	{name: "zenity, pulsating", app: "sh", args: []string{"-c", "sleep 100 | zenity --progress --pulsate"}, steps: []string{"press Tab"}},
	{name: "zenity, growing", app: "sh", args: []string{"-c", "for i in $(seq 100); do echo $i; sleep 0.1; done | zenity --progress"}, steps: []string{"press Tab"}},
}
