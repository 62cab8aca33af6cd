import SanguineAuthority
import SanguineModel

/// The beginning of an answer that is not streamed and exceeds the size limit.
///
/// The model has generated it, and the provider charges for it, so the output in the beginning is
/// charged. The rest is not read: its size is unlimited, and it may or may not contain the usage.
struct TruncatedAnswer {
    /// The output in the beginning.
    private(set) var output = OutputMeasure()

    /// Parses the beginning of a JSON text; `nil` unless it is an answer to the request.
    init?(_ bytes: [UInt8], to request: UpstreamRequest) {
        guard let json = Self.closed(bytes) else { return nil }
        if case .embeddings = request {
            guard json["data"] != nil else { return nil }
        } else {
            guard json["choices"] != nil else { return nil }
            output.add(choicesOf: json)
        }
    }

    /// Parses JSON that ends early by closing all open values.
    ///
    /// A truncated text is kept. If the JSON ends in a name or number, the last member is omitted.
    private static func closed(_ bytes: [UInt8]) -> JSONValue? {
        var open: [UInt8] = []
        var comma: (index: Int, open: [UInt8])?
        var (isInText, isEscaped, isName) = (false, false, false)
        var before: UInt8 = 0
        for (index, byte) in bytes.enumerated() {
            switch byte {
            case _ where isEscaped:
                isEscaped = false
                continue
            case UInt8(ascii: "\\") where isInText:
                isEscaped = true
                continue
            case UInt8(ascii: "\""):
                isInText.toggle()
                isName = open.last == UInt8(ascii: "}") && before != UInt8(ascii: ":")
            case _ where isInText: continue
            case UInt8(ascii: "{"): open.append(UInt8(ascii: "}"))
            case UInt8(ascii: "["): open.append(UInt8(ascii: "]"))
            case UInt8(ascii: "}"), UInt8(ascii: "]"): _ = open.popLast()
            case UInt8(ascii: ","): comma = (index, open)
            case UInt8(ascii: ":"): break
            default: continue
            }
            before = byte
        }
        if isInText, !isName {
            // The text may end in a character or an escape sequence, of at most 12 bytes.
            for dropped in 0...12 where dropped < bytes.count {
                let text = Array(bytes.prefix(bytes.count - dropped)) + [UInt8(ascii: "\"")]
                if let json = parsed(text + open.reversed()) { return json }
            }
        } else if !isInText, let json = parsed(bytes + open.reversed()) {
            return json
        }
        guard let comma else { return nil }
        return parsed(Array(bytes.prefix(comma.index)) + comma.open.reversed())
    }

    private static func parsed(_ bytes: [UInt8]) -> JSONValue? {
        try? JSONParser.parse(bytes, limits: .stored).value
    }
}
