import SanguineTesting

extension HostileUpstream {
    /// What the upstream does to a request.
    package enum Fault: Hashable, Sendable {
        /// A usage that nobody should believe, but for the last two: a billion, and nothing.
        package enum Usage: String, Hashable, Sendable, CaseIterable {
            case negative, huge, text, excessive, nothing
        }

        /// It answers as it should.
        case none
        /// It refuses with a status, and perhaps says when to come back.
        case refuses(status: Int, retryAfter: String? = nil)
        /// It says nothing, and keeps the connection open.
        case silence
        /// It ends the connection without a word, in order or by a reset.
        case hangsUp(resets: Bool)
        /// It sends the head of an answer, and nothing more.
        case headOnly
        /// It answers with something that is no answer.
        case garbage
        /// It closes the connection after so many bytes of the body.
        case cut(bytes: Int)
        /// It resets the connection (RST) after so many bytes of the body.
        case reset(bytes: Int)
        /// It reports no usage.
        case noUsage
        /// It reports nonsense as usage.
        case wrongUsage(Usage)
        /// It reports half of the words that it wrote.
        case halfUsage
        /// It reports the words of a stream after so many of them, and never again.
        case earlyUsage(words: Int)
        /// It writes so many words of a stream, and then nothing more.
        case stalls(words: Int)
        /// It goes on with words for ever, a millisecond apart, and never finishes.
        case neverEnds
        /// It sends bytes for ever, none of which ends a line.
        case lineWithoutEnd
        /// It takes so long from one word to the next.
        case slow(Duration)
        /// It sends so many words of a stream, and then an error in place of the next.
        case errorInStream(words: Int)
        /// It sends the `finish_reason` and closes, without `[DONE]`.
        case noDone
        /// It sends `[DONE]` without a `finish_reason` before it.
        case noFinishReason
        /// It sends `[DONE]`, and keeps the connection and the body open.
        case hangsAfterDone

        /// A fault by chance: each of those that come to an end by themselves is as likely as the
        /// others, and half of the requests have none.
        package static func random(using random: inout some RandomNumberGenerator) -> Fault {
            guard Bool.random(using: &random) else { return .none }
            let bytes = Int.random(in: 0...3_000, using: &random)
            let words = Int.random(in: 0...5, using: &random)
            let faults: [Fault] = [
                .refuses(status: 500), .refuses(status: 429, retryAfter: "0"),
                .refuses(status: 503), .garbage, .cut(bytes: bytes), .reset(bytes: bytes),
                .noUsage, .wrongUsage(.allCases.randomElement(using: &random) ?? .text),
                .slow(.milliseconds(words)), .errorInStream(words: words), .noDone,
            ]
            return faults.randomElement(using: &random) ?? .none
        }

        /// Faults by chance that are the same for the same seed and the same id, in whatever order
        /// the requests come.
        package static func seeded(_ seed: UInt64) -> @Sendable (Request) -> Fault {
            { request in
                var random = SplitMix64(seed: seed ^ HostileAnswer.hash(request.id))
                return .random(using: &random)
            }
        }
    }
}
