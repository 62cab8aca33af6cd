extension FaultyNetwork {
    /// What goes wrong, and how often.
    ///
    /// ```swift
    /// var faults = FaultyNetwork.Faults()
    /// faults.answerLoss = 0.2  // Every fifth answer: what was asked for is done all the same.
    /// faults.delay = .milliseconds(10) ... .seconds(2)
    /// ```
    public struct Faults: Hashable, Sendable {
        /// How long a request is under way, and its answer, each; also each part of a stream.
        ///
        /// What was sent later may arrive sooner. Default: no time.
        public var delay: ClosedRange<Duration> = .zero ... .zero
        /// How many requests never arrive, from 0 to 1.
        public var requestLoss = 0.0
        /// How many answers never arrive, from 0 to 1: what was asked for is done.
        public var answerLoss = 0.0
        /// How many requests arrive a second time, from 0 to 1, after a delay of their own.
        public var duplication = 0.0
        /// How many parts of a stream break it instead of arriving, from 0 to 1.
        public var streamBreak = 0.0
        /// How long it takes until a loss is noticed; at most the request's own timeout.
        ///
        /// Default: no time, the connection breaks at once.
        public var timeToNotice = Duration.zero

        /// Creates faults of which none ever happens.
        public init() {}

        /// Nothing goes wrong.
        public static let none = Faults()

        /// The underground: every tenth request or answer is lost, every tenth request comes twice,
        /// all take up to a second, so that many overtake others.
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

    /// Something that has happened to a request.
    public struct Event: Hashable, Sendable, CustomStringConvertible {
        /// What has happened.
        public enum Kind: String, Hashable, Sendable, CaseIterable {
            /// It was answered, and the answer arrived.
            case carried
            /// It never arrived.
            case requestLost
            /// It arrived, and its answer did not.
            case answerLost
            /// It arrived a second time.
            case doubled
            /// It was not sent: the network was partitioned.
            case turnedAway
            /// It, or its answer, was on its way when the network was partitioned.
            case cutOff
            /// Its stream broke.
            case streamBroken
            /// It could not be carried, or its sender gave it up.
            case failed
        }

        /// The number of the request on this network, from 1.
        public let number: Int
        /// Its method and path.
        public let request: String
        /// What has happened to it.
        public let kind: Kind

        /// All of it in a line.
        public var description: String { "#\(number) \(request): \(kind.rawValue)" }
    }
}
