package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/webrtc"
)

// mediaFlags configure how viewers of the live view reach the server.
type mediaFlags struct {
	udpPort   string
	tcpPort   string
	portRange string
	announce  []string
	servers   []string
}

func (m *mediaFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&m.udpPort, "media-udp-port", "", "UDP `port` for all viewers of the live view, or off (default 59050, or a free port)")
	flags.StringVar(&m.tcpPort, "media-tcp-port", "", "`port` at which viewers reach this server by TCP, past any HTTP proxy (default: the port of their request, unless a proxy forwarded it)")
	flags.StringVar(&m.portRange, "media-port-range", "", "give every viewer its own UDP port from `LOW-HIGH`")
	flags.StringArrayVar(&m.announce, "announce-ip", nil, "`address` that viewers get instead of this machine's addresses; may be repeated")
	flags.StringArrayVar(&m.servers, "ice-server", nil,
		"STUN or TURN server as `URL[,USER,CREDENTIAL]`; CREDENTIAL may be file:PATH or env:NAME; may be repeated")
}

// config puts the flags into the server's configuration.
func (m *mediaFlags) config(cfg *httpapi.Config) error {
	var err error
	if cfg.Media.UDPPort, err = udpPort(m.udpPort); err != nil {
		return err
	}
	if m.tcpPort != "" {
		n, err := strconv.ParseUint(m.tcpPort, 10, 16)
		if err != nil || n == 0 {
			return usagef("--media-tcp-port must be a number from 1 to 65535, not %q", m.tcpPort)
		}
		cfg.Media.TCPPort = uint16(n)
	}
	if m.portRange != "" {
		if m.udpPort != "" {
			return usagef("--media-port-range excludes --media-udp-port")
		}
		if cfg.Media.PortMin, cfg.Media.PortMax, err = portRange(m.portRange); err != nil {
			return err
		}
	}
	for _, text := range m.announce {
		if err := (webrtc.NetworkConfig{Announce: []string{text}}).Validate(); err != nil {
			return usagef("--announce-ip must be an IP address by which viewers reach this machine, not %q", text)
		}
	}
	cfg.Media.Announce = m.announce
	for _, text := range m.servers {
		server, variable, err := iceServer(text)
		if err != nil {
			return err
		}
		cfg.Media.ICEServers = append(cfg.Media.ICEServers, server)
		if variable != "" {
			cfg.Secrets = append(cfg.Secrets, variable)
		}
	}
	return nil
}

// udpPort returns the webrtc.NetworkConfig.UDPPort for --media-udp-port.
func udpPort(text string) (int, error) {
	switch text {
	case "":
		return 0, nil
	case "off":
		return -1, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, usagef("--media-udp-port must be a number from 1 to 65535, or off, not %q", text)
	}
	return int(n), nil
}

func portRange(text string) (low, high uint16, err error) {
	first, last, _ := strings.Cut(text, "-")
	a, err1 := strconv.ParseUint(first, 10, 16)
	b, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil || a == 0 || a > b {
		return 0, 0, usagef("--media-port-range must be two numbers from 1 to 65535 such as 50000-50100, not %q", text)
	}
	return uint16(a), uint16(b), nil
}

// iceServer parses a value of --ice-server. variable is the environment variable
// that holds the credential, or "".
func iceServer(text string) (s webrtc.ICEServer, variable string, err error) {
	parts := strings.SplitN(text, ",", 3)
	s.URLs = parts[:1]
	if len(parts) == 2 {
		return s, "", usagef("--ice-server %s: a comma and the credential must follow the user", parts[0])
	}
	if len(parts) == 3 {
		s.Username = parts[1]
		if s.Credential, variable, err = credential(parts[2]); err != nil {
			return s, "", fmt.Errorf("--ice-server %s: %w", parts[0], err)
		}
	}
	if err := (webrtc.NetworkConfig{ICEServers: []webrtc.ICEServer{s}}).Validate(); err != nil {
		return s, "", usagef("--ice-server: %s", err)
	}
	return s, variable, nil
}

// credential returns the value of CREDENTIAL, and the environment variable that holds
// it, or "".
func credential(text string) (value, variable string, err error) {
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", "", fmt.Errorf("credential: %w", err)
		}
		value, ok := oneLine(content)
		if !ok {
			return "", "", fmt.Errorf("credential file %s: must hold one line, the credential", path)
		}
		return value, "", nil
	}
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		if value = os.Getenv(name); value == "" {
			return "", "", fmt.Errorf("credential: the environment has no %s", name)
		}
		return value, name, nil
	}
	return text, "", nil
}
