import HostileUpstream
import SanguineModel
import SanguineTesting

/// The course of one stream in the game of invoices, as the seed draws it.
struct InvoicePlan: Sendable, CustomStringConvertible {
    /// The cause of a cut.
    enum Cut: String, Sendable, CaseIterable {
        /// No cut.
        case none
        /// The reader closes the connection.
        case reader
        /// The app closes its client.
        case app
        /// The owner cancels the call.
        case cancel
        /// The upstream breaks.
        case upstream
        /// The server stops.
        case stop
    }

    /// The number of words that the upstream may be ahead of the reader, and so the maximum number
    /// of words in transit at a cut.
    static let ahead = 8
    /// The longest answer, in words, which is also the hold.
    static let longest = 60

    /// The number of the stream, from 0.
    let number: Int
    /// Whether the run continues without a reader.
    let isDrained: Bool
    /// The cause of the cut.
    let cut: Cut
    /// The number of words in the answer.
    let words: Int
    /// The number of parts that are read before the cut.
    let read: Int
    /// Whether a reader that left returns before the end.
    let returns: Bool
    /// The upstream's fault.
    let fault: HostileUpstream.Fault

    /// Draws the plan of a stream.
    init(_ number: Int, seed: UInt64) {
        var random = SplitMix64(seed: seed &+ UInt64(number) &* 0x9E37_79B9)
        self.number = number
        isDrained = Bool.random(using: &random)
        // A client is expensive, so only one stream in sixteen has one.
        let cuts: [Cut] = [
            .none, .reader, .reader, .reader, .cancel, .cancel, .upstream, .stop,
        ]
        let drawn = cuts.randomElement(using: &random) ?? .none
        cut = number % 16 == 7 ? .app : drawn
        words = Int.random(in: 1...Self.longest, using: &random)
        read = Int.random(in: (cut == .app ? 1 : 0)...words, using: &random)
        returns = Bool.random(using: &random)
        let bytes = Int.random(in: 0...(words * 130), using: &random)
        let faults: [HostileUpstream.Fault] = [
            .cut(bytes: bytes), .reset(bytes: bytes), .noUsage, .noDone,
            .errorInStream(words: read), .wrongUsage(.negative), .wrongUsage(.huge),
            .wrongUsage(.text),
        ]
        let broken = faults.randomElement(using: &random) ?? .none
        fault = cut == .upstream ? broken : .none
    }

    /// The stream's id in the upstream's invoice.
    var id: String { "stream-\(number)" }

    /// The name of the called function.
    var function: String { isDrained ? DrainedAsk.name : StoppedAsk.name }

    /// The question of the call.
    var question: String { "id=\(id) words=\(words) ahead=\(Self.ahead)" }

    var description: String {
        "\(id): \(function), \(words) words, \(cut) after \(read), \(fault), returns: \(returns)"
    }

    /// Whether every written word must have been read.
    ///
    /// - Parameter hasTime: Whether the server's stop waited for it.
    /// - Returns: Whether nothing cut the run short or discarded words in transit.
    func isWhole(hasTime: Bool) -> Bool {
        switch cut {
        case .none: true
        case .reader, .app: isDrained
        case .cancel: false
        case .stop: hasTime
        case .upstream: if case .reset = fault { false } else { true }
        }
    }
}

/// A question whose run continues without a reader.
struct DrainedAsk: FunctionCall {
    typealias Output = String
    static let name = "drain"
    static let rules = FunctionRules(
        price: .usage(perMillionInput: 0, perMillionOutput: 1_000_000, atLeast: 0),
        streams: true,
        onDisconnect: .drain,
        limits: FunctionLimits(drains: 1_000)
    )
    let input: Ask.Input

    init(_ question: String) { input = Ask.Input(question: question) }
}

/// A question whose run stops without a reader.
struct StoppedAsk: FunctionCall {
    typealias Output = String
    static let name = "stop"
    static let rules = FunctionRules(
        price: .usage(perMillionInput: 0, perMillionOutput: 1_000_000, atLeast: 0),
        streams: true,
        onDisconnect: .stop
    )
    let input: Ask.Input

    init(_ question: String) { input = Ask.Input(question: question) }
}
