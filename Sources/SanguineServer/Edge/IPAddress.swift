import Foundation

/// An IPv4 or IPv6 address.
///
/// An IPv4 address that is written as an IPv6 one (`::ffff:192.0.2.1`) is the IPv4 address. The
/// zone of a link-local address (`fe80::1%eth0`) is left out.
struct IPAddress: Hashable, Sendable {
    /// The bits of an IPv6 address, the highest first; an IPv4 address has the last 32.
    private let high: UInt64
    private let low: UInt64
    /// Whether it is an IPv4 address.
    let isIPv4: Bool

    private static let mapped: UInt64 = 0xFFFF << 32

    /// Reads an address as it is usually written: four decimal numbers, or RFC 4291, section 2.2.
    init?(_ text: some StringProtocol) {
        guard text.utf8.count <= 128, !text.utf8.contains(0) else { return nil }
        let bare = String(text.prefix { $0 != "%" })
        if bare.utf8.count < text.utf8.count, !bare.contains(":") { return nil }
        var four = in_addr()
        if inet_pton(AF_INET, bare, &four) == 1 {
            (high, low, isIPv4) = (0, UInt64(UInt32(bigEndian: four.s_addr)), true)
            return
        }
        var six = in6_addr()
        guard inet_pton(AF_INET6, bare, &six) == 1 else { return nil }
        let bytes = withUnsafeBytes(of: six) { Array($0) }
        let high = bytes[..<8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let low = bytes[8...].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let isMapped = high == 0 && low & ~0xFFFF_FFFF == Self.mapped
        (self.high, self.low) = (high, isMapped ? low & 0xFFFF_FFFF : low)
        isIPv4 = isMapped
    }

    /// How many bits its kind of address has.
    var bits: Int { isIPv4 ? 32 : 128 }

    /// Whether it stands for the machine itself: 127.0.0.0/8 or ::1.
    var isLoopback: Bool { isIPv4 ? low >> 24 == 127 : high == 0 && low == 1 }

    /// Whether the first bits are the same in both, which are of one kind.
    func shares(_ count: Int, with other: IPAddress) -> Bool {
        guard isIPv4 == other.isIPv4 else { return false }
        if isIPv4 { return (low ^ other.low) & ~0 >> 32 & ~0 << (32 - count) == 0 }
        return (high ^ other.high) & ~0 << max(0, 64 - count) == 0
            && (low ^ other.low) & ~0 << min(64, 128 - count) == 0
    }

    /// What counts as one client: an IPv4 address, or the /64 of an IPv6 address, of which a
    /// household has all.
    var client: String {
        if isIPv4 {
            return stride(from: 24, through: 0, by: -8).map { String(low >> UInt64($0) & 0xFF) }
                .joined(separator: ".")
        }
        let groups = stride(from: 48, through: 0, by: -16).map {
            String(high >> UInt64($0) & 0xFFFF, radix: 16)
        }
        return groups.joined(separator: ":") + "::/64"
    }
}

/// All addresses that begin with the same bits, as `10.0.0.0/8` names them (RFC 4632, RFC 4291).
struct AddressRange: Hashable, Sendable {
    private let address: IPAddress
    private let prefix: Int

    /// Reads an address alone, or an address and how many of its bits count.
    init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count <= 2, !text.contains("%"), let address = IPAddress(parts[0]) else {
            return nil
        }
        self.address = address
        guard parts.count == 2 else {
            prefix = address.bits
            return
        }
        // Of an IPv4 address in the form of an IPv6 one it would be unclear which bits are meant.
        guard address.isIPv4 != parts[0].contains(":"), (1...3).contains(parts[1].utf8.count),
            parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let prefix = Int(parts[1]), prefix <= address.bits
        else { return nil }
        self.prefix = prefix
    }

    /// Whether the address is one of them.
    func contains(_ other: IPAddress) -> Bool { address.shares(prefix, with: other) }
}
