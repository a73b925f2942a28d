package main

import (
	"net/http"
	"strings"
)

// app is an application. DIR is the directory of the round.
type app struct{ name, command, window string } // window matches the title of its window when it is ready

// task is something to do in an application.
type task struct {
	app   app
	what  string
	args  string // further arguments of the application
	steps steps
	check check
}

func (t task) name() string { return t.app.name + ": " + t.what }

// check returns the outcome of a task, and whether it is as wanted.
type check func(*round) (got string, ok bool)

// file checks the content of a file.
func file(name, want string) check {
	return func(r *round) (string, bool) {
		got := r.read(name)
		return got, got == r.expand(want)
	}
}

// ends checks the end of a file.
func ends(name, want string) check {
	return func(r *round) (string, bool) {
		got := r.read(name)
		return got, strings.HasSuffix(got, want)
	}
}

// title checks that a window's title contains a text.
func title(want string) check {
	return func(r *round) (string, bool) {
		got := r.titles()
		return got, strings.Contains(got, want)
	}
}

// copied checks what Ctrl+C copies.
func copied(want string) check {
	return func(r *round) (string, bool) {
		var c struct{ Text string }
		if err := r.act(steps{"press ctrl+c"}); err != nil {
			return err.Error(), false
		}
		if err := r.call(r.ctx, http.MethodGet, "/clipboard", nil, &c); err != nil {
			return err.Error(), false
		}
		return c.Text, strings.TrimSuffix(c.Text, "\n") == want
	}
}

var (
	mousepad   = app{"mousepad (GTK 3)", "mousepad --disable-server", "Mousepad"}
	thunar     = app{"Thunar (GTK 3)", "thunar DIR/folder", "folder"}
	xfce       = app{"xfce4-terminal (GTK 3)", "xfce4-terminal --disable-server --working-directory=DIR -T shell --dynamic-title-mode=none", "shell"}
	zenity     = app{"zenity (GTK 3)", "zenity --title question", "question"}
	textEditor = app{"gnome-text-editor (GTK 4)", "gnome-text-editor --standalone", "Text Editor|words"}
	featherpad = app{"featherpad (Qt 5)", "featherpad -s", "Untitled|words"}
	kcalc      = app{"kcalc (Qt 5, KDE)", "kcalc", "KCalc"}
	tk         = app{"Tk", "wish DIR/board.tcl DIR/out", "board"}
	swing      = app{"Swing (Java)", "java DIR/Board.java DIR/out", "board"}
	calc       = app{"LibreOffice Calc", "libreoffice -env:UserInstallation=file://DIR/profile --norestore --nologo --nofirststartwizard --calc DIR/sheet.csv --infilter=CSV:44,34,76,1", "sheet.csv"}
	chromium   = app{"Chromium", "chromium --no-sandbox --test-type --no-first-run --disable-gpu --disable-dev-shm-usage --password-store=basic --force-device-scale-factor=1 --user-data-dir=DIR/chromium --window-size=800,700 --window-position=0,0 --app=file://DIR/page.html", "^page"}
	firefox    = app{"Firefox", "firefox-esr --no-remote --profile DIR/firefox --kiosk file://DIR/page.html", "^page"}
	gimp       = app{"GIMP (GTK 2)", "gimp --no-splash DIR/picture.ppm", "picture"}
	pcmanfm    = app{"pcmanfm (GTK 2)", "pcmanfm DIR/folder", "folder"}
	xterm      = app{"xterm (Xt)", "xterm -T shell -e env PS1=$ dash", "shell"}
)

const (
	lines = "first line\nthe second, with (signs)\nthird\n"
	words = "alpha beta gamma delta\nsecond line here\n"
)

var tasks = []task{
	{mousepad, "open a file", "", steps{"press ctrl+o", "choose DIR/other.txt"}, title("other.txt")},
	{mousepad, "type and save", "", steps{"type " + lines, "press ctrl+s", "choose DIR/out"}, file("out", lines)},
	{mousepad, "double click after a click", "DIR/words.txt", steps{"click 300 300", "double 20 62"}, copied("alpha")},
	{mousepad, "cut, and paste twice", "DIR/words.txt", steps{"press ctrl+a ctrl+x ctrl+v ctrl+v ctrl+s"}, file("words.txt", words+words)},
	{mousepad, "go to a line and save by the menu", "DIR/words.txt", steps{"press ctrl+l", "type 2\n", "type X", "press alt+f s"}, file("words.txt", "alpha beta gamma delta\nXsecond line here\n")},
	{mousepad, "undo by the context menu", "DIR/words.txt", steps{"press ctrl+a Delete", "right 200 200", "press Down Return", "press ctrl+s"}, file("words.txt", words)},

	{textEditor, "write over a file", "DIR/words.txt", steps{"press ctrl+a", "type new\ntext", "press ctrl+s"}, file("words.txt", "new\ntext\n")},
	{textEditor, "type and save", "", steps{"type new\ntext", "press ctrl+s ctrl+a", "choose DIR/out.txt"}, file("out.txt", "new\ntext\n")},
	{textEditor, "replace a word that is selected", "DIR/words.txt", steps{"press ctrl+Home ctrl+shift+Right", "type omega", "press ctrl+s"}, file("words.txt", "omega beta gamma delta\nsecond line here\n")},

	{featherpad, "open a file", "", steps{"press ctrl+o", "choose DIR/other.txt"}, title("other.txt")},
	{featherpad, "type and save", "", steps{"type " + lines, "press ctrl+s", "choose DIR/out"}, file("out", lines)},
	{featherpad, "save by the menu", "DIR/words.txt", steps{"type more ", "press alt+f s"}, file("words.txt", "more "+words)},
	{featherpad, "close, and save when asked", "DIR/words.txt", steps{"type more ", "press ctrl+q", "press Return"}, file("words.txt", "more "+words)},
	{featherpad, "cut a word by a double click", "DIR/words.txt", steps{"double 30 101", "press ctrl+x ctrl+End ctrl+v ctrl+s"}, file("words.txt", " beta gamma delta\nsecond line here\nalpha\n")},

	{kcalc, "calculate by keys", "", steps{"press 1 2 asterisk 3 4 Return"}, copied("408")},
	{kcalc, "type a calculation", "", steps{"type 12*34=", "press plus", "type 2="}, copied("410")},
	{kcalc, "the same digit three times", "", steps{"type 555+1="}, copied("556")},

	{tk, "confirm a dialog, twice", "", steps{"type one\n", "press Return", "type  two\n", "press Return"}, file("out", "one two")},
	{tk, "choose a file to write to", "", steps{"type text", "press ctrl+s", "choose DIR/saved"}, file("saved", "text")},
	{tk, "double click in a list", "", steps{"click 60 70", "double 60 50"}, file("out", "banana")},

	{swing, "type after a modal dialog", "", steps{"type before ", "press ctrl+d Return", "type after\n"}, file("out", "before after")},
	{swing, "choose a file", "", steps{"press ctrl+o", "choose DIR/other.txt"}, file("out", "DIR/other.txt")},
	{swing, "type an emoji", "", steps{"type a😀b漢\n"}, file("out", "a😀b漢")},
	{swing, "use a menu", "", steps{"type quiet", "press alt+e Return", "press End", "type er\n"}, file("out", "QUIETer")},

	{xterm, "type lines", "", steps{"type cat > DIR/out\n", "type " + lines, "press ctrl+d"}, file("out", lines)},
	{xterm, "interrupt a program", "", steps{"type sleep 99\n", "press ctrl+c", "type echo done > DIR/out\n"}, file("out", "done\n")},
	{xterm, "paste with the middle button", "", steps{"type clear; echo alpha\n", "settle", "double 20 10", "type printf %s ", "middle 200 100", "type  > DIR/out\n"}, file("out", "alpha")},

	{xfce, "run commands", "", steps{"type cd folder\n", "type cat one.txt two.txt > DIR/out\n"}, file("out", "one\ntwo\n")},
	{xfce, "run a command in a new tab", "", steps{"press ctrl+shift+t", "type echo second > DIR/out\n", "press ctrl+d", "type echo first >> DIR/out\n"}, file("out", "second\nfirst\n")},
	{xfce, "edit a command", "", steps{"type world > DIR/out", "press ctrl+a", "type echo hello ", "press Return"}, file("out", "hello world\n")},

	{thunar, "rename a file", "", steps{"press Home", "press F2", "press ctrl+a", "type renamed.txt\n"}, file("folder/renamed.txt", "one\n")},
	{thunar, "make a folder", "", steps{"press ctrl+shift+n", "press ctrl+a", "type new\n"}, file("folder/new", "read DIR/folder/new: is a directory")},
	{thunar, "delete a file for ever", "", steps{"press Home", "press shift+Delete", "press Return"}, file("folder/one.txt", "open DIR/folder/one.txt: no such file or directory")},
	{thunar, "go to a folder by its path", "", steps{"press ctrl+l", "press ctrl+a", "type DIR/firefox\n"}, title("firefox")},

	{pcmanfm, "rename a file", "", steps{"press Home", "press F2", "press ctrl+a", "type renamed.txt\n"}, file("folder/renamed.txt", "one\n")},
	{pcmanfm, "copy a file to another folder", "", steps{"press Home", "press ctrl+c ctrl+l ctrl+a", "type DIR/firefox\n", "await firefox", "press ctrl+v"}, file("firefox/one.txt", "one\n")},

	{calc, "overwrite a cell between two clicks on it", "", steps{"click 120 300", "type new", "press Return", "click 120 300"}, copied("new")},
	{calc, "sum two cells", "", steps{"press Down Down", "type =A2+B2\n", "press Up"}, copied("7")},
	{calc, "save as CSV", "", steps{"type first\tsecond\n", "press ctrl+s", "await Confirm|Keep", "press Return"}, file("sheet.csv", "\"first\",\"second\"\n3,4\n")},
	{calc, "find a cell", "", steps{"press ctrl+f", "type 4\n", "press Escape"}, copied("4")},

	{gimp, "export a picture", "", export, ends("out.ppm", "\n\xff\x00\x00\x00\x00\xff")},
	{gimp, "fill and export", "", append(steps{"press ctrl+comma"}, export...), ends("out.ppm", "\n\x00\x00\x00\x00\x00\x00")},
	{gimp, "make a picture", "", steps{"press ctrl+n", "await New Image", "press Return"}, title("Untitled")},

	{zenity, "answer with a text", "--entry", steps{"type some text\n"}, file("stdout", "some text\n")},
	{zenity, "fill in a form", "--forms --add-entry=Name --add-entry=Town", steps{"type Ada\tLondon", "press Tab Tab Return"}, file("stdout", "Ada|London\n")},
	{zenity, "choose from a list", "--list --column=fruit apple banana cherry", steps{"press Home Down Down Return"}, file("stdout", "cherry\n")},
	{zenity, "choose a file", "--file-selection", steps{"choose DIR/other.txt"}, file("stdout", "DIR/other.txt\n")},

	{chromium, "scroll five clicks in a small box", "", steps{"scroll 200 150 5"}, title("scrolled 600")},
	{chromium, "two single clicks", "", steps{"click 200 400", "click 200 400"}, title("clicks 2 doubles 0")},
	{chromium, "a double click after a click", "", steps{"click 200 400", "double 200 400"}, title("clicks 3 doubles 1")},
	{chromium, "fill in a form", "", form, title(filled)},
	{chromium, "answer a question", "", steps{"click 570 305", "settle", "press Return"}, title("asked true")},
	{chromium, "drag", "", steps{"drag 450 430 550 560"}, title("grip 520 530")},
	{chromium, "copy from field to field", "", copying, title("word/red/false/word")},
	{chromium, "upload a file", "", steps{"click 460 345", "await (?i)open|upload", "type DIR/other.txt", "click 1075 752"}, title("other.txt: other")},

	{firefox, "two single clicks", "", steps{"click 200 400", "click 200 400"}, title("clicks 2 doubles 0")},
	{firefox, "a double click after a click", "", steps{"click 200 400", "double 200 400"}, title("clicks 3 doubles 1")},
	{firefox, "fill in a form", "", form, title(filled)},
	{firefox, "answer a question", "", steps{"click 570 305", "settle", "press Return"}, title("asked true")},
	{firefox, "drag", "", steps{"drag 450 430 550 560"}, title("grip 520 530")},
	{firefox, "copy from field to field", "", copying, title("word/red/false/word")},
	{firefox, "upload a file", "", upload, title("other.txt: other")},
}

// Steps of several tasks.
var (
	form    = steps{"click 570 35", "type Ada Lovelace\tg\t", "press space", "type \tnotes\t\n"}
	copying = steps{"click 570 35", "type word", "press ctrl+a ctrl+c", "click 570 185", "press ctrl+v", "click 570 265"}
	export  = steps{"press ctrl+shift+e", "await Export", "press ctrl+a", "choose DIR/out.ppm", "await PNM", "press Return", `await \(exported\)`}
	upload  = steps{"click 460 345", "await (?i)open|upload", "choose DIR/other.txt"}
)

const filled = "Ada Lovelace/green/true/notes"
