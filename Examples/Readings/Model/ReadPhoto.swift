public import SanguineModel

/// Reads a photo: a call that uses one unit of the day's readings, only if it succeeds.
public struct ReadPhoto: FunctionCall {
    public struct Input: Hashable, Codable, Sendable {
        public var kind: ReadingKind
        public var origin: Origin
        /// The language of the reading, a BCP 47 tag.
        public var language: String

        public init(_ kind: ReadingKind, _ origin: Origin, language: String) {
            (self.kind, self.origin, self.language) = (kind, origin, language)
        }
    }

    public static let name = "reading"
    public static let quota = "readings"
    public static let rules = FunctionRules(
        price: .quota(quota).charged(.onCompletion),
        streams: true,
        attachments: AttachmentRules(count: 1, minimum: 1, bytes: 10 << 20),
        limits: FunctionLimits(inputBytes: 1 << 10, runningPerAccount: 3)
    )
    public typealias Output = String
    public let input: Input
    public let attachments: [String]

    public init(_ input: Input, of photo: String) {
        (self.input, attachments) = (input, [photo])
    }
}
