import HostileUpstream
import SanguineTesting

/// One answer of the game of outputs, as the seed draws it, and what it may be charged.
///
/// The upstream bills a token for each word. A token has 2 to 8 bytes, the same in all of an
/// answer; the server takes four bytes for a token where nothing is reported. So the declared
/// bounds of a charge are, with `b` for the bytes of a token: the invoice times `b / 4`, or the
/// invoice, whichever is less, below; whichever is more, above. Both are wider by ``slack``.
struct OutputPlan: Sendable, CustomStringConvertible {
    /// How an answer ends.
    enum End: String, Sendable, CaseIterable {
        /// Whole.
        case whole
        /// The connection is closed, with or without a reset.
        case cut, reset
        /// The caller cancels the call.
        case cancel
        /// The call takes too long.
        case late
    }

    /// What is reported of its usage.
    enum Report: String, Sendable, CaseIterable {
        case right, none, zero, nonsense, half, early
    }

    /// The longest answer, in words; as much is held.
    static let longest = 60
    /// Tokens by which the bounds are wider: begun ones, and the name of a tool.
    static let slack: Int64 = 2
    /// Tokens of a report of nothing that cannot be refuted: those of 16 characters.
    private static let uncertain: Int64 = 8

    let number: Int
    let kind: HostileAnswer.Kind
    let size: Int
    let words: Int
    let isStreamed: Bool
    /// Whether it is asked for through the door for OpenAI's clients.
    let isPassed: Bool
    let end: End
    let report: Report
    /// Words after which the answer is cut, or the early report comes.
    let place: Int

    /// Draws the plan of an answer.
    init(_ number: Int, seed: UInt64) {
        var random = SplitMix64(seed: seed &+ UInt64(number) &* 0x9E37_79B9)
        func any<Value>(_ values: [Value]) -> Value {
            values[Int.random(in: values.indices, using: &random)]
        }
        self.number = number
        kind = any(HostileAnswer.Kind.allCases)
        size = kind == .audio ? 4 : Int.random(in: 2...8, using: &random)
        words = Int.random(in: 1...Self.longest, using: &random)
        place = Int.random(in: 1...words, using: &random)
        let drawn = any(End.allCases + [.whole, .whole])
        // What is cancelled must have been read up to the cut, which the door's reader sees.
        isPassed = drawn == .cancel ? true : drawn == .late ? false : any([true, false])
        isStreamed = [.cancel, .late].contains(drawn) ? true : any([true, true, false])
        end = drawn
        let reported = any(Report.allCases)
        // In one piece nothing is early; and what does not come to its end reports nothing.
        report =
            drawn != .whole ? .none : reported == .early && !isStreamed ? .right : reported
    }

    /// What the upstream's invoice calls it, and the key of its call.
    var id: String { "output-\(number)" }

    /// The function that is called; through the door it is always the first.
    var function: String { end == .late ? "late" : "ask" }

    /// What it is asked.
    var question: String {
        "id=\(id) words=\(words) kind=\(kind.rawValue) size=\(size)"
    }

    /// What the upstream does.
    var fault: HostileUpstream.Fault {
        switch (end, report) {
        case (.cut, _): .cut(bytes: 260 * place)
        case (.reset, _): .reset(bytes: 260 * place)
        case (.cancel, _), (.late, _): .stalls(words: place)
        case (.whole, .right): .none
        case (.whole, .none): .noUsage
        case (.whole, .zero): .wrongUsage(.nothing)
        case (.whole, .nonsense): .wrongUsage(.huge)
        case (.whole, .half): .halfUsage
        case (.whole, .early): .earlyUsage(words: place)
        }
    }

    var description: String {
        """
        \(id): \(words) words of \(size) bytes as \(kind), \(isStreamed ? "streamed" : "whole") \
        through \(isPassed ? "the door" : function), \(end) after \(place), usage \(report)
        """
    }

    /// The charges that are right for so many tokens of the upstream.
    func bounds(of billed: Int64) -> ClosedRange<Int64> {
        let estimate = billed * Int64(size)
        var lower = min(billed, estimate / 4) - Self.slack
        var upper = max(billed, (estimate + 3) / 4) + Self.slack
        switch (end, report) {
        case (.whole, .right): (lower, upper) = (billed, billed)
        case (.whole, .half): (lower, upper) = (min(lower, billed / 2), upper)
        case (.whole, .zero): lower -= Self.uncertain
        // A reset loses words that were under way; any cut loses an answer in one piece.
        case (.reset, _): lower = 0
        case (.cut, _) where !isStreamed: lower = 0
        default: break
        }
        let hold = Int64(Self.longest)
        return min(max(0, lower), hold)...min(max(0, upper), hold)
    }

    /// What is wrong with a charge; `nil` if nothing is.
    func finding(charged: Int64, billed: Int64) -> String? {
        let bounds = bounds(of: billed)
        guard !bounds.contains(charged) else { return nil }
        return "\(self): charged \(charged) of \(billed) billed, may be \(bounds)"
    }
}
