import Foundation
import SanguineModel

/// Embeddings of the stand-in: a text's vector is the sum of its words' vectors, so that texts with
/// common words are close to each other.
struct StandInEmbeddings: Sendable {
    /// The default number of dimensions.
    static let defaultDimensions = 8
    /// The maximum number of texts in a request.
    static let textLimit = 2_048

    private let model: String
    private let texts: [String]
    private let dimensions: Int
    private let isBase64: Bool

    init(body: Data) throws(StandInRefusal) {
        let json = try StandInRequest.object(body)
        model = json["model"]?.string ?? "stand-in"
        texts = try Self.texts(json["input"])
        let asked = json["dimensions"] ?? .integer(Int64(Self.defaultDimensions))
        guard let dimensions = asked.integer, (1...1_024).contains(dimensions) else {
            throw StandInRefusal(
                message: "'dimensions' must be a whole number from 1 to 1024.",
                parameter: "dimensions"
            )
        }
        self.dimensions = Int(dimensions)
        isBase64 = json["encoding_format"] == "base64"
    }

    /// The body of the response.
    var answer: JSONValue {
        let items = texts.enumerated().map { index, text -> JSONValue in
            let vector = Self.vector(of: text, dimensions: dimensions)
            return [
                "object": "embedding", "index": .integer(Int64(index)),
                "embedding": isBase64
                    ? .string(Self.base64(vector)) : .array(vector.map { .number(Double($0)) }),
            ]
        }
        let tokens = texts.reduce(0) { $0 + StandInAnswer.tokens(of: $1) }
        return [
            "object": "list", "model": .string(model), "data": .array(items),
            "usage": [
                "prompt_tokens": .integer(Int64(tokens)), "total_tokens": .integer(Int64(tokens)),
            ],
        ]
    }

    /// Returns a vector of length 1, which is always the same for the same text.
    static func vector(of text: String, dimensions: Int) -> [Float] {
        var words = text.lowercased().split { !$0.isLetter && !$0.isNumber }.map(String.init)
        if words.isEmpty { words = [text] }
        var sum = [Double](repeating: 0, count: dimensions)
        for word in words {
            for index in sum.indices {
                let bits = StandInAnswer.fingerprint(of: [word, "\(index)"])
                sum[index] += Double(bits >> 11) / Double(1 << 52) - 1
            }
        }
        let length = sum.reduce(0) { $0 + $1 * $1 }.squareRoot()
        return sum.map { Float(length > 0 ? $0 / length : 0) }
    }

    private static func texts(_ json: JSONValue?) throws(StandInRefusal) -> [String] {
        if let text = json?.string, !text.isEmpty { return [text] }
        if case .array(let items) = json, !items.isEmpty, items.count <= textLimit {
            let texts = items.compactMap(\.string)
            if texts.count == items.count, !texts.contains("") { return texts }
        }
        throw StandInRefusal(
            message: "'input' must be a string, or an array of 1 to \(textLimit) strings.",
            parameter: "input"
        )
    }

    /// Encodes the numbers as 32-bit floats in little-endian order.
    private static func base64(_ vector: [Float]) -> String {
        var data = Data()
        for number in vector {
            withUnsafeBytes(of: number.bitPattern.littleEndian) { data.append(contentsOf: $0) }
        }
        return data.base64EncodedString()
    }
}
