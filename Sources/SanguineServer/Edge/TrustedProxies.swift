/// The proxies that are trusted to report the address of a client.
///
/// Each proxy appends the address of its own peer to `Forwarded` (RFC 7239) or `X-Forwarded-For`.
/// The fields are therefore read from the end, while each address found is a trusted proxy's. The
/// rest may be forged and is ignored.
///
/// ```swift
/// let proxies = TrustedProxies(["10.0.0.0/8"])
/// let peer = IPAddress("10.0.0.1")
/// proxies.client(behind: peer, forwarded: [], forwardedFor: ["1.2.3.4, 192.0.2.1"])  // 192.0.2.1
/// ```
struct TrustedProxies: Hashable, Sendable {
    private let ranges: [AddressRange]

    /// Uses the strings that are addresses or ranges; the settings were validated earlier.
    init(_ texts: [String]) { ranges = texts.compactMap { AddressRange($0) } }

    /// Returns whether the address is a trusted proxy's.
    func contains(_ address: IPAddress?) -> Bool {
        guard let address else { return false }
        return ranges.contains { $0.contains(address) }
    }

    /// Returns the address of the client that sent a request.
    ///
    /// This is the peer if it is not a trusted proxy, if neither field exists, or if a field cannot
    /// be parsed up to the client. If both fields exist and name different clients, a proxy has
    /// passed one of them on unchecked, so the peer is used as well.
    ///
    /// - Parameters:
    ///   - peer: The address at the other end of the connection.
    ///   - forwarded: The lines of `Forwarded`.
    ///   - forwardedFor: The lines of `X-Forwarded-For`.
    /// - Returns: The address, or `nil` if the peer has none.
    func client(
        behind peer: IPAddress?,
        forwarded: [String],
        forwardedFor: [String]
    ) -> IPAddress? {
        guard contains(peer), let peer else { return peer }
        let standard = forwarded.isEmpty ? nil : client(behind: peer, forwarded, Self.node)
        let usual =
            forwardedFor.isEmpty ? nil : client(behind: peer, forwardedFor) { Self.address($0) }
        guard let standard else { return usual ?? peer }
        guard let usual else { return standard }
        return standard == usual ? standard : peer
    }

    private func client(
        behind peer: IPAddress,
        _ lines: [String],
        _ address: (Substring.UTF8View) -> IPAddress?
    ) -> IPAddress {
        var client = peer
        for line in lines.reversed() {
            var rest = line.utf8[...]
            while let element = Self.removeLast(from: &rest, UInt8(ascii: ",")) {
                if element.isEmpty { continue }  // RFC 9110, section 5.6.1.2.
                guard let address = address(element) else { return peer }
                client = address
                guard contains(address) else { return client }
            }
        }
        return client
    }

    /// Returns the address in an element of `Forwarded`:
    /// `for=192.0.2.60;proto=http;by="[2001:db8::1]"`.
    private static func node(_ element: Substring.UTF8View) -> IPAddress? {
        var rest = element
        var found: IPAddress?
        while let pair = removeLast(from: &rest, UInt8(ascii: ";")) {
            guard let equals = pair.firstIndex(of: UInt8(ascii: "=")) else { return nil }
            guard String(Substring(pair[..<equals])).lowercased() == "for" else { continue }
            var value = pair[pair.index(after: equals)...]
            if value.first == UInt8(ascii: "\"") {
                guard value.count >= 2, value.last == UInt8(ascii: "\"") else { return nil }
                value = value.dropFirst().dropLast()
            }
            guard found == nil, let address = address(value) else { return nil }
            found = address
        }
        return found
    }

    /// Returns the address of a node without its port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`,
    /// `[2001:db8::1]`, `[2001:db8::1]:80`.
    private static func address(_ node: Substring.UTF8View) -> IPAddress? {
        let text = Substring(node)
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { return nil }
            let port = text[text.index(after: end)...]
            guard port.isEmpty || port.first == ":" else { return nil }
            let address = IPAddress(text[text.index(after: text.startIndex)..<end])
            return address?.isIPv4 == true ? nil : address
        }
        let colons = text.utf8.count { $0 == UInt8(ascii: ":") }
        return IPAddress(colons == 1 ? text.prefix { $0 != ":" } : text)
    }

    /// Removes and returns the text after the last unquoted separator, without outer whitespace.
    ///
    /// - Returns: `nil` when nothing is left.
    private static func removeLast(
        from rest: inout Substring.UTF8View,
        _ separator: UInt8
    ) -> Substring.UTF8View? {
        guard !rest.isEmpty else { return nil }
        var isQuoted = false
        var start = rest.endIndex
        while start > rest.startIndex {
            let previous = rest.index(before: start)
            if rest[previous] == UInt8(ascii: "\"") { isQuoted.toggle() }
            if rest[previous] == separator, !isQuoted { break }
            start = previous
        }
        let element = rest[start...]
        rest = start > rest.startIndex ? rest[..<rest.index(before: start)] : rest[..<start]
        let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
        var trimmed = element.drop(while: isSpace)
        while let last = trimmed.last, isSpace(last) { trimmed.removeLast() }
        return trimmed
    }
}
