package x11

import (
	_ "embed" // for keysymNames

	"github.com/jezek/xgb/xproto"
)

// First keysyms of rows (X11 protocol, appendix A).
const (
	keyF1  xproto.Keysym = 0xffbe
	keyKP0 xproto.Keysym = 0xffb0
)

// keysymNames has the keysyms of <X11/keysymdef.h> and <X11/XF86keysym.h> (xorgproto), one
// a line: a number, the name to show, and its other names. It leaves out names of one
// character.
//
//go:embed keysyms.txt
var keysymNames string

// commonNames maps the names of keys in xdotool, Playwright, pyautogui and browsers,
// folded, to X names.
const commonNames = `ctrl=Control_L control=Control_L ctrlleft=Control_L controlleft=Control_L ctrlright=Control_R controlright=Control_R lctrl=Control_L rctrl=Control_R controlormeta=Control_L
shift=Shift_L shiftleft=Shift_L shiftright=Shift_R lshift=Shift_L rshift=Shift_R
alt=Alt_L altleft=Alt_L altright=Alt_R lalt=Alt_L ralt=Alt_R option=Alt_L opt=Alt_L optionleft=Alt_L optionright=Alt_R altgr=ISO_Level3_Shift altgraph=ISO_Level3_Shift
cmd=Super_L command=Super_L super=Super_L win=Super_L windows=Super_L meta=Super_L os=Super_L metaleft=Super_L metaright=Super_R cmdleft=Super_L cmdright=Super_R commandleft=Super_L commandright=Super_R
superleft=Super_L superright=Super_R winleft=Super_L winright=Super_R lwin=Super_L rwin=Super_R osleft=Super_L osright=Super_R hyper=Hyper_L compose=Multi_key
enter=Return ret=Return newline=Return linefeed=Linefeed esc=Escape backspace=BackSpace bksp=BackSpace bs=BackSpace del=Delete ins=Insert spacebar=space spc=space
pgup=Page_Up pageup=Page_Up pgdn=Page_Down pgdown=Page_Down pagedown=Page_Down arrowleft=Left arrowright=Right arrowup=Up arrowdown=Down leftarrow=Left rightarrow=Right uparrow=Up downarrow=Down
prtsc=Print prtscr=Print prntscrn=Print printscreen=Print prtscn=Print printscrn=Print capslock=Caps_Lock caps=Caps_Lock numlock=Num_Lock scrolllock=Scroll_Lock contextmenu=Menu apps=Menu
dash=minus dot=period equals=equal equalsign=equal quote=apostrophe singlequote=apostrophe doublequote=quotedbl backquote=grave backtick=grave tilde=asciitilde
pipe=bar hash=numbersign exclamation=exclam dollarsign=dollar atsign=at lessthan=less greaterthan=greater intlbackslash=less leftbracket=bracketleft rightbracket=bracketright
leftbrace=braceleft rightbrace=braceright leftparen=parenleft rightparen=parenright
numpadenter=KP_Enter numpadadd=KP_Add numpadsubtract=KP_Subtract numpadmultiply=KP_Multiply numpaddivide=KP_Divide numpaddecimal=KP_Decimal numpadcomma=KP_Separator numpadequal=KP_Equal
add=KP_Add subtract=KP_Subtract divide=KP_Divide decimal=KP_Decimal separator=KP_Separator
volumeup=XF86AudioRaiseVolume volumedown=XF86AudioLowerVolume volumemute=XF86AudioMute audiovolumeup=XF86AudioRaiseVolume audiovolumedown=XF86AudioLowerVolume audiovolumemute=XF86AudioMute mute=XF86AudioMute
playpause=XF86AudioPlay mediaplaypause=XF86AudioPlay mediaplay=XF86AudioPlay mediapause=XF86AudioPause mediastop=XF86AudioStop mediatracknext=XF86AudioNext mediatrackprevious=XF86AudioPrev
nexttrack=XF86AudioNext prevtrack=XF86AudioPrev stop=XF86AudioStop
browserback=XF86Back browserforward=XF86Forward browserhome=XF86HomePage browserrefresh=XF86Refresh browsersearch=XF86Search browserstop=XF86Stop browserfavorites=XF86Favorites
launchmail=XF86Mail launchmediaselect=XF86AudioMedia launchapp1=XF86MyComputer launchapp2=XF86Calculator sleep=XF86Sleep wakeup=XF86WakeUp power=XF86PowerOff eject=XF86Eject
brightnessup=XF86MonBrightnessUp brightnessdown=XF86MonBrightnessDown kana=Kana_Lock hangul=Hangul hanja=Hangul_Hanja convert=Henkan_Mode nonconvert=Muhenkan`
