import HostileUpstream
import SanguineTesting

/// One answer in the game of outputs, as the seed draws it, and the bounds of its charge.
///
/// The upstream bills one token per word. A token has 2 to 8 bytes, the same number throughout an
/// answer. The server counts four bytes as a token if no usage is reported. With `b` bytes per
/// token, the lower bound is the lesser of the invoice and the invoice times `b / 4`, and the upper
/// bound is the greater. Both are widened by ``slack``.
struct OutputPlan: Sendable, CustomStringConvertible {
    /// The end of an answer.
    enum End: String, Sendable, CaseIterable {
        /// The answer is complete.
        case whole
        /// The connection is closed, with or without a reset.
        case cut, reset
        /// The caller cancels the call.
        case cancel
        /// The call takes too long.
        case late
    }

    /// The reported usage.
    enum Report: String, Sendable, CaseIterable {
        case right, none, zero, nonsense, half, early
    }

    /// The longest answer, in words, which is also the hold.
    static let longest = 60
    /// The tokens by which the bounds are widened, for partial tokens and a tool's name.
    static let slack: Int64 = 2
    /// The tokens of an empty report that cannot be refuted, which is up to 16 characters.
    private static let uncertain: Int64 = 8

    let number: Int
    let kind: HostileAnswer.Kind
    let size: Int
    let words: Int
    let isStreamed: Bool
    /// Whether the call is made through the OpenAI routes.
    let isPassed: Bool
    let end: End
    let report: Report
    /// The number of words before the cut or the early report.
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
        // Only a reader of the OpenAI routes knows when it has read up to the cut and can cancel.
        isPassed = drawn == .cancel ? true : drawn == .late ? false : any([true, false])
        isStreamed = [.cancel, .late].contains(drawn) ? true : any([true, true, false])
        end = drawn
        let reported = any(Report.allCases)
        // A whole response has no early report, and an incomplete answer has no report.
        report =
            drawn != .whole ? .none : reported == .early && !isStreamed ? .right : reported
    }

    /// The answer's id in the upstream's invoice, and the key of its call.
    var id: String { "output-\(number)" }

    /// The name of the called function.
    ///
    /// The OpenAI routes always call the first one.
    var function: String { end == .late ? "late" : "ask" }

    /// The question of the call.
    var question: String {
        "id=\(id) words=\(words) kind=\(kind.rawValue) size=\(size)"
    }

    /// The upstream's fault.
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

    /// Returns the correct charges for the given number of billed tokens.
    func bounds(of billed: Int64) -> ClosedRange<Int64> {
        let estimate = billed * Int64(size)
        var lower = min(billed, estimate / 4) - Self.slack
        var upper = max(billed, (estimate + 3) / 4) + Self.slack
        switch (end, report) {
        case (.whole, .right): (lower, upper) = (billed, billed)
        case (.whole, .half): (lower, upper) = (min(lower, billed / 2), upper)
        case (.whole, .zero): lower -= Self.uncertain
        // A reset loses words in transit, and any cut loses a whole response.
        case (.reset, _): lower = 0
        case (.cut, _) where !isStreamed: lower = 0
        default: break
        }
        let hold = Int64(Self.longest)
        return min(max(0, lower), hold)...min(max(0, upper), hold)
    }

    /// Returns a description of a wrong charge, or `nil` if the charge is correct.
    func finding(charged: Int64, billed: Int64) -> String? {
        let bounds = bounds(of: billed)
        guard !bounds.contains(charged) else { return nil }
        return "\(self): charged \(charged) of \(billed) billed, may be \(bounds)"
    }
}
