import Foundation

/// An IPv4 or IPv6 address.
///
/// An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) is the IPv4 address. The zone of a link-local
/// address (`fe80::1%eth0`) is ignored.
struct IPAddress: Hashable, Sendable {
    /// The bits of an IPv6 address, the highest first; an IPv4 address uses the last 32.
    private let high: UInt64
    private let low: UInt64
    /// Whether it is an IPv4 address.
    let isIPv4: Bool

    private static let mapped: UInt64 = 0xFFFF << 32

    /// Parses an address: four decimal numbers, or the notation of RFC 4291, section 2.2.
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

    /// The number of bits of an address of this kind.
    var bits: Int { isIPv4 ? 32 : 128 }

    /// Whether it is a loopback address: 127.0.0.0/8 or ::1.
    var isLoopback: Bool { isIPv4 ? low >> 24 == 127 : high == 0 && low == 1 }

    /// Returns whether both addresses are of one kind and have their first `count` bits in common.
    func shares(_ count: Int, with other: IPAddress) -> Bool {
        guard isIPv4 == other.isIPv4 else { return false }
        if isIPv4 { return (low ^ other.low) & ~0 >> 32 & ~0 << (32 - count) == 0 }
        return (high ^ other.high) & ~0 << max(0, 64 - count) == 0
            && (low ^ other.low) & ~0 << min(64, 128 - count) == 0
    }

    /// The client that the address counts as: an IPv4 address, or the /64 of an IPv6 address,
    /// because a household usually has a whole /64.
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

/// An address range in CIDR notation, such as `10.0.0.0/8` (RFC 4632, RFC 4291).
struct AddressRange: Hashable, Sendable {
    private let address: IPAddress
    private let prefix: Int

    /// Parses an address, optionally followed by a prefix length.
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
        // For an IPv4-mapped IPv6 address, a prefix length would be ambiguous.
        guard address.isIPv4 != parts[0].contains(":"), (1...3).contains(parts[1].utf8.count),
            parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let prefix = Int(parts[1]), prefix <= address.bits
        else { return nil }
        self.prefix = prefix
    }

    /// Returns whether the range contains the address.
    func contains(_ other: IPAddress) -> Bool { address.shares(prefix, with: other) }
}
