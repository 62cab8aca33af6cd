public import SanguineModel

/// A question of the user, by itself or about a file.
public struct Question: Hashable, Codable, Sendable {
    public var question: String

    public init(_ question: String) { self.question = question }
}

/// A question in words.
public struct AskText: FunctionCall {
    public static let name = "ask-text"
    public static let rules = FunctionRules(price: .assistant, streams: true)
    public static let expectedCost: Int64 = 3
    public static let whenOffline = OfflineCall.queue
    public typealias Output = String
    public let input: Question

    public init(_ question: String) { input = Question(question) }
}

/// A question about pictures.
public struct AskImage: FunctionCall {
    public static let name = "ask-image"
    public static let rules = FunctionRules(
        price: .assistant,
        streams: true,
        attachments: AttachmentRules(count: 4, bytes: 20 << 20)
    )
    public static let expectedCost: Int64 = 4
    public typealias Output = String
    public let input: Question
    public let attachments: [String]

    public init(_ question: String, about images: [String]) {
        (input, attachments) = (Question(question), images)
    }
}

/// A question about a video.
public struct AskVideo: FunctionCall {
    public static let name = "ask-video"
    public static let rules = FunctionRules(
        price: .assistant,
        streams: true,
        attachments: AttachmentRules(
            count: 1,
            types: ["video/mp4", "video/quicktime", "video/webm"],
            tokens: 8_192
        )
    )
    public static let expectedCost: Int64 = 5
    public typealias Output = String
    public let input: Question
    public let attachments: [String]

    public init(_ question: String, about video: String) {
        (input, attachments) = (Question(question), [video])
    }
}

extension Price {
    /// The price of the model's tokens in the user's tokens.
    fileprivate static let assistant = usage(perMillionInput: 2_000, perMillionOutput: 8_000)
}
