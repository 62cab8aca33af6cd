import SanguineTesting

extension HostileUpstream {
    /// A fault with which the upstream treats a request.
    package enum Fault: Hashable, Sendable {
        /// Wrong usage.
        ///
        /// The last two values are plausible: a billion tokens, and none.
        package enum Usage: String, Hashable, Sendable, CaseIterable {
            case negative, huge, text, excessive, nothing
        }

        /// No fault.
        case none
        /// Refuses the request with a status and perhaps a time to retry.
        case refuses(status: Int, retryAfter: String? = nil)
        /// Sends nothing and keeps the connection open.
        case silence
        /// Closes or resets the connection without a response.
        case hangsUp(resets: Bool)
        /// Sends the head of a response and nothing more.
        case headOnly
        /// Responds with something that is no answer.
        case garbage
        /// Closes the connection after the given number of bytes of the body.
        case cut(bytes: Int)
        /// Resets the connection (RST) after the given number of bytes of the body.
        case reset(bytes: Int)
        /// Reports no usage.
        case noUsage
        /// Reports wrong usage.
        case wrongUsage(Usage)
        /// Reports half of the words that it wrote.
        case halfUsage
        /// Reports usage once, after the given number of words of a stream.
        case earlyUsage(words: Int)
        /// Writes the given number of words of a stream, then nothing more.
        case stalls(words: Int)
        /// Writes words forever, a millisecond apart.
        case neverEnds
        /// Sends bytes forever without ending a line.
        case lineWithoutEnd
        /// Waits for the duration between words.
        case slow(Duration)
        /// Sends the given number of words of a stream, then an error.
        case errorInStream(words: Int)
        /// Sends the `finish_reason` and closes, without `[DONE]`.
        case noDone
        /// Sends `[DONE]` without a `finish_reason` before it.
        case noFinishReason
        /// Sends `[DONE]` and keeps the connection and the body open.
        case hangsAfterDone

        /// Returns a random fault.
        ///
        /// All faults that end by themselves are equally likely, and half of the requests have
        /// none.
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

        /// Returns random faults that depend only on the seed and the id, not on the order of
        /// requests.
        package static func seeded(_ seed: UInt64) -> @Sendable (Request) -> Fault {
            { request in
                var random = SplitMix64(seed: seed ^ HostileAnswer.hash(request.id))
                return .random(using: &random)
            }
        }
    }
}
