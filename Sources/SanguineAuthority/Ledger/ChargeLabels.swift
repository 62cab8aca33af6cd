import Foundation
package import SanguineModel

/// The labels of a charge, by which summaries of the ledger group.
///
/// They are stored as one JSON object with the charge, and with its hold until then. Charges of
/// earlier versions have none.
public struct ChargeLabels: Hashable, Codable, Sendable {
    /// The language model that was asked last; `nil` if none was.
    public var model: String?
    /// The id of the API key with which a program made the request; `nil` for a request with an
    /// access token.
    public var key: String?
    /// The text that the caller chose with `Sanguine-Tag`; `nil` if there was none.
    public var tag: String?

    /// Creates labels.
    public init(model: String? = nil, key: String? = nil, tag: String? = nil) {
        self.model = model
        self.key = key
        self.tag = tag
    }

    /// Creates labels from their stored form; members that a newer version stored are ignored.
    ///
    /// Returns `nil` if the text is not a JSON object of labels.
    public init?(text: String) {
        guard let labels = try? JSONDecoder().decode(Self.self, from: Data(text.utf8)) else {
            return nil
        }
        self = labels
    }

    /// The stored form; `nil` without labels.
    public var text: String? {
        guard self != Self() else { return nil }
        return String(decoding: ResponseEncoder.encode(self), as: UTF8.self)
    }

    /// Returns the labels with the model that a run has asked.
    func asking(_ model: String?) -> ChargeLabels {
        var labels = self
        if let model { labels.model = Self.shortened(model) }
        return labels
    }

    /// The number of characters in a tag: 1 to 64.
    package static let tagCharacters = 1...64
    /// The maximum number of bytes of a model's name that are stored.
    private static let modelBytes = 128

    private static func shortened(_ model: String) -> String {
        guard model.utf8.count > modelBytes else { return model }
        var short = Substring(model)
        while short.utf8.count > modelBytes { short.unicodeScalars.removeLast() }
        return String(short)
    }
}

extension WireRequest {
    /// Returns the labels that the request's header fields give to its charge.
    ///
    /// - Throws: `malformed_request` for an invalid `Sanguine-Tag`.
    package func chargeLabels() throws(Problem) -> ChargeLabels {
        guard let tag = field(.sanguineTag) else { return ChargeLabels() }
        guard ChargeLabels.tagCharacters.contains(tag.utf8.count),
            tag.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw Problem(
                .malformedRequest,
                "Send a 'Sanguine-Tag' of 1 to 64 visible ASCII characters, or leave it out."
            )
        }
        return ChargeLabels(tag: tag)
    }
}
