extension FaultyNetwork {
    /// The kinds of faults and their frequency.
    ///
    /// ```swift
    /// var faults = FaultyNetwork.Faults()
    /// faults.answerLoss = 0.2  // Every fifth answer: what was asked for is done all the same.
    /// faults.delay = .milliseconds(10) ... .seconds(2)
    /// ```
    public struct Faults: Hashable, Sendable {
        /// The time that a request, its response, and each part of a stream take.
        ///
        /// Requests may overtake each other. Default: no time.
        public var delay: ClosedRange<Duration> = .zero ... .zero
        /// The share of requests that never arrive, from 0 to 1.
        public var requestLoss = 0.0
        /// The share of responses that never arrive, from 0 to 1; their requests are processed.
        public var answerLoss = 0.0
        /// The share of requests that arrive twice, from 0 to 1; the duplicate has a separate
        /// delay.
        public var duplication = 0.0
        /// The share of stream parts that break the stream instead of arriving, from 0 to 1.
        public var streamBreak = 0.0
        /// The time until a loss is noticed, at most the request's own timeout.
        ///
        /// Default: no time, the connection breaks at once.
        public var timeToNotice = Duration.zero

        /// Creates faults that never happen.
        public init() {}

        /// No faults.
        public static let none = Faults()

        /// A subway ride: a tenth of the requests and of the responses is lost, a tenth of the
        /// requests arrives twice, and all take up to a second, so that many overtake others.
        public static let rough: Faults = {
            var faults = Faults()
            faults.delay = .zero ... .seconds(1)
            faults.requestLoss = 0.1
            faults.answerLoss = 0.1
            faults.duplication = 0.1
            faults.streamBreak = 0.1
            return faults
        }()
    }

    /// An event in the life of a request.
    public struct Event: Hashable, Sendable, CustomStringConvertible {
        /// The kind of event.
        public enum Kind: String, Hashable, Sendable, CaseIterable {
            /// The request was answered, and the response arrived.
            case carried
            /// The request never arrived.
            case requestLost
            /// The request arrived, but its response did not.
            case answerLost
            /// The request arrived a second time.
            case doubled
            /// The request was not sent, because the network was partitioned.
            case turnedAway
            /// The network was partitioned while the request or its response was in transit.
            case cutOff
            /// The stream broke.
            case streamBroken
            /// The request failed, or its sender cancelled it.
            case failed
        }

        /// The number of the request on this network, from 1.
        public let number: Int
        /// The request's method and path.
        public let request: String
        /// The kind of event.
        public let kind: Kind

        /// The event in one line.
        public var description: String { "#\(number) \(request): \(kind.rawValue)" }
    }
}
