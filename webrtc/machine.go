package webrtc

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// machine is what a UDP port needs of the machine that it is opened on. Tests
// have others than this one.
type machine interface {
	addresses() ([]netip.Addr, error)
	listen(netip.AddrPort) (udpConn, error)
}

// udpConn is a UDP socket, such as a *net.UDPConn.
type udpConn interface {
	net.PacketConn
	ReadFromUDPAddrPort([]byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort([]byte, netip.AddrPort) (int, error)
}

// thisMachine is the one that the program runs on.
type thisMachine struct{}

// addresses are those of this machine by which others, or its
// own programs, can reach it: those that are bound to one link only are left out
// (RFC 8445, section 5.1.1.1).
func (thisMachine) addresses() ([]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var all []netip.Addr
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it has just gone
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			if ip := prefix.Addr().Unmap(); !ip.Is6() || !ip.IsLinkLocalUnicast() {
				all = append(all, ip)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), nil
}

// udpBuffer is how many bytes may wait for the network interface, if the kernel
// grants that: a key picture is sent in one burst.
const udpBuffer = 2 << 20

func (thisMachine) listen(at netip.AddrPort) (udpConn, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	_ = conn.SetWriteBuffer(udpBuffer)
	return conn, nil
}
