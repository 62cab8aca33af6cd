/// A value of CBOR (RFC 8949), as far as App Attest uses it.
///
/// The decoder reads text, bytes, arrays, and maps with texts as keys, all of definite length. It
/// refuses everything else, repeated keys and bytes after the value, and is bounded: a length is
/// compared with the bytes that are left before anything is read.
enum CBORItem: Hashable, Sendable {
    case text(String)
    case bytes(ArraySlice<UInt8>)
    case array([CBORItem])
    case map([String: CBORItem])

    /// The maximum size of encoded data in bytes.
    static let bytesLimit = 1 << 15
    /// The maximum depth of arrays and maps.
    static let depthLimit = 4
    /// The maximum number of values, keys included.
    static let itemsLimit = 64

    /// Decodes the only value of the data; `nil` if it is not valid.
    init?(_ data: [UInt8]) {
        guard data.count <= Self.bytesLimit else { return nil }
        var decoder = Decoder(rest: data[...])
        guard let item = decoder.item(depth: 0), decoder.rest.isEmpty else { return nil }
        self = item
    }

    /// The member of a map; `nil` if there is none.
    subscript(_ name: String) -> CBORItem? {
        guard case .map(let members) = self else { return nil }
        return members[name]
    }

    /// The bytes of a byte string.
    var data: [UInt8]? {
        guard case .bytes(let bytes) = self else { return nil }
        return Array(bytes)
    }

    private struct Decoder {
        var rest: ArraySlice<UInt8>
        var items = 0

        mutating func item(depth: Int) -> CBORItem? {
            items += 1
            guard depth <= CBORItem.depthLimit, items <= CBORItem.itemsLimit,
                let head = rest.popFirst(), let length = length(head & 0x1F)
            else { return nil }
            switch head >> 5 {
            case 2: return read(length).map(CBORItem.bytes)
            case 3: return text(length)
            case 4: return array(length, depth: depth)
            case 5: return map(length, depth: depth)
            default: return nil
            }
        }

        /// Reads the length for the lower bits of the first byte; `nil` for one that is longer than
        /// the data.
        private mutating func length(_ bits: UInt8) -> Int? {
            let size: Int
            switch bits {
            case 0..<24: return Int(bits) <= rest.count ? Int(bits) : nil
            case 24: size = 1
            case 25: size = 2
            case 26: size = 4
            default: return nil
            }
            guard let bytes = read(size) else { return nil }
            let length = bytes.reduce(0) { $0 << 8 | Int($1) }
            return length <= rest.count ? length : nil
        }

        private mutating func read(_ count: Int) -> ArraySlice<UInt8>? {
            guard count <= rest.count else { return nil }
            defer { rest = rest.dropFirst(count) }
            return rest.prefix(count)
        }

        private mutating func text(_ count: Int) -> CBORItem? {
            guard let bytes = read(count) else { return nil }
            return String(validating: bytes, as: UTF8.self).map(CBORItem.text)
        }

        private mutating func array(_ count: Int, depth: Int) -> CBORItem? {
            var elements: [CBORItem] = []
            for _ in 0..<count {
                guard let element = item(depth: depth + 1) else { return nil }
                elements.append(element)
            }
            return .array(elements)
        }

        private mutating func map(_ count: Int, depth: Int) -> CBORItem? {
            var members: [String: CBORItem] = [:]
            for _ in 0..<count {
                guard case .text(let name)? = item(depth: depth + 1),
                    let value = item(depth: depth + 1),
                    members.updateValue(value, forKey: name) == nil
                else { return nil }
            }
            return .map(members)
        }
    }
}
