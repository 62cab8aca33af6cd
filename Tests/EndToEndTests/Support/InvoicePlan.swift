import HostileUpstream
import SanguineModel
import SanguineTesting

/// What becomes of one stream of the game of invoices, as the seed draws it.
struct InvoicePlan: Sendable, CustomStringConvertible {
    /// By whom a stream is cut.
    enum Cut: String, Sendable, CaseIterable {
        /// By nobody.
        case none
        /// Its reader closes the connection.
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

    /// How many words the upstream may be ahead of what its reader has: no more are under way when
    /// a cut comes.
    static let ahead = 8
    /// The longest answer, in words; as much is held.
    static let longest = 60

    /// The number of the stream, from 0.
    let number: Int
    /// Whether the run goes on although nobody reads it.
    let isDrained: Bool
    /// By whom it is cut.
    let cut: Cut
    /// Words of its answer.
    let words: Int
    /// Parts that are read before the cut.
    let read: Int
    /// Whether whoever has left comes back before the end.
    let returns: Bool
    /// What the upstream does.
    let fault: HostileUpstream.Fault

    /// Draws the plan of a stream.
    init(_ number: Int, seed: UInt64) {
        var random = SplitMix64(seed: seed &+ UInt64(number) &* 0x9E37_79B9)
        self.number = number
        isDrained = Bool.random(using: &random)
        // A client is dear: one stream in sixteen is an app's.
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

    /// What the upstream's invoice calls it.
    var id: String { "stream-\(number)" }

    /// The function that is called.
    var function: String { isDrained ? DrainedAsk.name : StoppedAsk.name }

    /// What it is asked.
    var question: String { "id=\(id) words=\(words) ahead=\(Self.ahead)" }

    var description: String {
        "\(id): \(function), \(words) words, \(cut) after \(read), \(fault), returns: \(returns)"
    }

    /// Whether all that was written must have been read.
    ///
    /// - Parameter hasTime: Whether the server's stop waited for it.
    /// - Returns: Whether nobody cut the run short, nor threw away what was under way.
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

/// A question whose run goes on when nobody reads it.
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

/// A question whose run is stopped when nobody reads it.
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
