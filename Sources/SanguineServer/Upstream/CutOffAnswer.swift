import SanguineAuthority
import SanguineModel

/// The beginning of an answer in one piece that is longer than what is read.
///
/// The model has made it, and the provider bills it, so what the beginning shows is charged. The
/// end of such an answer is not read: it has no bound, and usage may stand in it or not.
struct CutOffAnswer {
    /// What the beginning shows.
    private(set) var output = OutputMeasure()

    /// Reads the beginning of a JSON text; `nil` unless it begins an answer to the request.
    init?(_ bytes: [UInt8], to request: UpstreamRequest) {
        guard let json = Self.closed(bytes) else { return nil }
        if case .embeddings = request {
            guard json["data"] != nil else { return nil }
        } else {
            guard json["choices"] != nil else { return nil }
            output.add(choicesOf: json)
        }
    }

    /// The value that there is when all that is open is closed: with the text that was cut, or, if
    /// the cut is in a name or a number, without the last member.
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
            // A cut may be within a character or an escape: at most 12 bytes are part of one.
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
