import SanguineModel

/// A document in XML of an S3 storage: an error, or a list of objects.
///
/// It reads the part of XML that such documents use. References to other documents are not
/// followed, and a document with a type declaration, such as a page in HTML, is refused.
struct S3Document: Hashable {
    /// The maximum depth of elements.
    static let depth = 16

    /// The name without a namespace.
    private(set) var name: String
    /// The text between the tags, without that of the elements in it.
    private(set) var text = ""
    private(set) var children: [S3Document] = []

    private init(name: String) { self.name = name }

    /// Reads a document; returns `nil` if it is not one.
    init?(_ bytes: [UInt8]) {
        var reader = Reader(bytes: bytes)
        guard let root = reader.root() else { return nil }
        self = root
    }

    /// Returns the text of the first element with the name.
    subscript(name: String) -> String? { children.first { $0.name == name }?.text }

    /// Returns the elements with the name.
    func all(_ name: String) -> [S3Document] { children.filter { $0.name == name } }

    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        /// Storages send spaces before a document to keep a connection open.
        mutating func root() -> S3Document? {
            var open: [S3Document] = []
            while position < bytes.count {
                if bytes[position] != UInt8(ascii: "<") {
                    let text = read(until: "<")
                    guard let last = open.indices.last else {
                        guard Self.isBlank(text) else { return nil }
                        continue
                    }
                    open[last].text += Self.unescaped(text)
                } else if skip("<?") {
                    guard skip(past: "?>") else { return nil }
                } else if skip("<!--") {
                    guard skip(past: "-->") else { return nil }
                } else if skip("<![CDATA[") {
                    guard let last = open.indices.last else { return nil }
                    open[last].text += String(decoding: read(until: "]]>"), as: UTF8.self)
                    guard skip("]]>") else { return nil }
                } else if skip("</") {
                    guard let closed = open.popLast(), closed.name == tag(read(until: ">")),
                        skip(">")
                    else { return nil }
                    guard let parent = open.indices.last else { return closed }
                    open[parent].children.append(closed)
                } else {
                    guard let element = begin(), open.count < S3Document.depth else { return nil }
                    if !element.isEmpty {
                        open.append(element.document)
                    } else if let parent = open.indices.last {
                        open[parent].children.append(element.document)
                    } else {
                        return element.document
                    }
                }
            }
            return nil
        }

        private mutating func begin() -> (document: S3Document, isEmpty: Bool)? {
            guard skip("<"), position < bytes.count, bytes[position] != UInt8(ascii: "!") else {
                return nil
            }
            var content = read(until: ">")
            guard skip(">") else { return nil }
            let isEmpty = content.last == UInt8(ascii: "/")
            if isEmpty { content.removeLast() }
            let name = tag(content)
            return name.isEmpty ? nil : (S3Document(name: name), isEmpty)
        }

        /// Returns the name in a tag, without a namespace and attributes.
        private func tag(_ content: [UInt8]) -> String {
            let name = content.prefix { !Self.isBlank([$0]) }
            let local = name.split(separator: UInt8(ascii: ":")).last ?? []
            return String(decoding: local, as: UTF8.self)
        }

        private mutating func read(until end: StaticString) -> [UInt8] {
            let start = position
            while position < bytes.count, !isAt(end) { position += 1 }
            return Array(bytes[start..<position])
        }

        private mutating func skip(_ text: StaticString) -> Bool {
            guard isAt(text) else { return false }
            position += text.utf8CodeUnitCount
            return true
        }

        private mutating func skip(past end: StaticString) -> Bool {
            _ = read(until: end)
            return skip(end)
        }

        private func isAt(_ text: StaticString) -> Bool {
            text.withUTF8Buffer { bytes[position...].starts(with: $0) }
        }

        private static func isBlank(_ text: [UInt8]) -> Bool {
            text.allSatisfy { [0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0) }
        }

        private static func unescaped(_ text: [UInt8]) -> String {
            let text = String(decoding: text, as: UTF8.self)
            guard text.contains("&") else { return text }
            var result = ""
            var rest = text[...]
            while let start = rest.firstIndex(of: "&") {
                result += rest[..<start]
                rest = rest[start...].dropFirst()
                guard let end = rest.prefix(10).firstIndex(of: ";"),
                    let character = character(rest[..<end])
                else {
                    result += "&"
                    continue
                }
                result.unicodeScalars.append(character)
                rest = rest[rest.index(after: end)...]
            }
            return result + rest
        }

        private static func character(_ name: Substring) -> Unicode.Scalar? {
            switch name {
            case "lt": return "<"
            case "gt": return ">"
            case "amp": return "&"
            case "quot": return "\""
            case "apos": return "'"
            default:
                guard name.hasPrefix("#") else { return nil }
                let digits = name.dropFirst()
                let number =
                    digits.hasPrefix("x") ? UInt32(digits.dropFirst(), radix: 16) : UInt32(digits)
                return number.flatMap { Unicode.Scalar($0) }
            }
        }
    }
}

/// A page of a list of objects.
struct S3Page: Hashable {
    /// An object of a list.
    struct Object: Hashable {
        var key: String
        /// The time of the storage's clock at which it was written last.
        var writtenAt: Timestamp?
    }

    var objects: [Object]
    /// Whether there are further objects.
    var isCut: Bool

    /// Reads a response to `ListObjectsV2`; returns `nil` if it is not one.
    init?(_ bytes: [UInt8]) {
        guard let document = S3Document(bytes), document.name == "ListBucketResult" else {
            return nil
        }
        // Some storages ignore the request to escape the keys.
        let isEscaped = document["EncodingType"]?.lowercased() == "url"
        objects = []
        for object in document.all("Contents") {
            guard let text = object["Key"] else { return nil }
            guard let key = isEscaped ? Self.unescaped(text) : text else { return nil }
            objects.append(
                Object(key: key, writtenAt: object["LastModified"].flatMap { Timestamp($0) })
            )
        }
        isCut = document["IsTruncated"] == "true"
    }

    /// Removes the escapes of a key, in which a plus sign is a space, as in forms.
    private static func unescaped(_ text: String) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                let digits = String(decoding: rest.prefix(2), as: UTF8.self)
                guard digits.count == 2, let value = UInt8(digits, radix: 16) else { return nil }
                bytes.append(value)
                rest = rest.dropFirst(2)
            default: bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
