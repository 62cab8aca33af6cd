package import SanguineModel

/// A function that an authority runs and charges for.
package protocol MeteredFunction: Sendable {
    /// The function's name in the path.
    var name: String { get }
    /// The price, the cache, and the limits.
    var rules: FunctionRules { get }
    /// The members of `input`: name and type, with `?` after the name of optional ones.
    var inputs: [String: String] { get }

    /// Decodes the input of a call.
    ///
    /// - Throws: `invalid_content`, naming the member and its type.
    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall
}

extension MeteredFunction {
    /// The description for clients.
    package var description: FunctionDescription {
        FunctionDescription(name: name, rules: rules, inputs: inputs)
    }
}

/// The input of a call.
package struct FunctionInput: Sendable {
    /// The `input` of the body.
    package var value: JSONValue
    /// The files, which belong to the account and match the function's rules.
    package var attachments: [BlobFacts]
    /// The account's settings that the answer depends on, as the function's cache declares: `null`
    /// for a setting that is not set, and no other members.
    package var settings: [String: JSONValue]
    /// The last messages of the call's thread, oldest first, within the function's rules.
    package var history: [ChatMessage] = []

    /// Creates the input.
    package init(
        _ value: JSONValue,
        attachments: [BlobFacts] = [],
        settings: [String: JSONValue] = [:]
    ) {
        self.value = value
        self.attachments = attachments
        self.settings = settings
    }
}

/// The services for a running call.
package struct CallContext: Sendable {
    /// The account that calls; `nil` if the answer is public.
    package var account: Identifier?
    /// The account whose turn the run has, for counting failures; answers must not depend on it.
    package var caller: Identifier?
    /// The account's settings that the answer depends on, as of the time when no cached answer was
    /// found; see ``FunctionInput/settings``.
    package var settings: [String: JSONValue]
    /// Whether the parts of the answer are read; if not, a function may return its answer in one
    /// piece.
    package var isStreamed: Bool
    /// Adds a part to the answer, and waits while too many parts are not stored yet.
    ///
    /// `bytes` is the number of bytes that the function itself produced; 0 if ``report`` measures
    /// the output of an upstream.
    package var write: @Sendable (_ part: String, _ bytes: Int) async -> Void
    /// Replaces the record of the upstream's output and usage.
    package var report: @Sendable (RunProgress) -> Void
    /// Records that the function fails without having asked an upstream; such a call is free if it
    /// was cut short.
    package var askedNobody: @Sendable () -> Void
    /// Records the language model that is about to be asked, which the ledger shows.
    package var asks: @Sendable (_ model: String) -> Void
    /// Reads a file of the call.
    package var attachment: @Sendable (BlobFacts) async throws(Problem) -> [UInt8]

    /// Creates a context; closures that are left out do nothing.
    package init(
        account: Identifier? = nil,
        caller: Identifier? = nil,
        settings: [String: JSONValue] = [:],
        isStreamed: Bool = false,
        write: @escaping @Sendable (String, Int) async -> Void = { _, _ in },
        report: @escaping @Sendable (RunProgress) -> Void = { _ in },
        askedNobody: @escaping @Sendable () -> Void = {},
        asks: @escaping @Sendable (String) -> Void = { _ in },
        attachment: @escaping @Sendable (BlobFacts) async throws(Problem) -> [UInt8] = {
            _ throws(Problem) in
            throw Problem(.notFound, "Upload the file again: it does not exist.")
        }
    ) {
        self.account = account
        self.caller = caller
        self.settings = settings
        self.isStreamed = isStreamed
        self.write = write
        self.report = report
        self.askedNobody = askedNobody
        self.asks = asks
        self.attachment = attachment
    }
}

/// A call whose input is decoded and valid.
package struct PreparedCall: Sendable {
    /// The output and the charge of a call.
    package struct Outcome: Sendable {
        /// The value for `output` in the answer.
        package var output: JSONValue
        /// The output as JSON, if the answer must contain these exact bytes.
        ///
        /// Default: `nil`, which encodes ``output``.
        package var written: [UInt8]?
        /// The charge; at most the hold.
        package var charge: Int64
        /// The reason why the language model stopped, in its own words; `nil` if there is none.
        ///
        /// An incomplete output is returned to the calls that share its run, but not cached.
        package var finishReason: String?

        /// Creates the outcome.
        package init(
            output: JSONValue,
            written: [UInt8]? = nil,
            charge: Int64,
            finishReason: String? = nil
        ) {
            self.output = output
            self.written = written
            self.charge = charge
            self.finishReason = finishReason
        }
    }

    /// The part of the input that the function uses; calls with equal parts are equal.
    package var input: JSONValue
    /// The files of the call, which were found to belong to the account; calls with different files
    /// are different.
    package internal(set) var attachments: [BlobFacts] = []
    /// A fingerprint of the context in the call's thread; `nil` if there is none.
    package internal(set) var context: Fingerprint?
    /// A fingerprint of prompt, model and upstreams, for the cache key.
    ///
    /// Default: `nil`, because the answer depends only on the input.
    package var question: Fingerprint?
    /// The held amount: the most that the call can cost.
    package var hold: Int64
    /// The estimated cost before any call was measured.
    package var guess: Int64
    /// The shortest lifetime of its hold, which must be longer than the call can take, or its
    /// answer would be lost.
    package var life: Duration
    /// The shortest lifetime for a streamed answer, which may take longer; ``life`` if `nil`.
    package var streamedLife: Duration?
    /// Whether the call is sent to an upstream, so that its hold is charged if its end is unknown.
    package var isSent: Bool
    /// The problem if the call cannot run now for any account; `nil` if it can.
    package var unavailable: Problem?
    /// Returns the problem if the call cannot run now for an account; `nil` if it can.
    ///
    /// Such a call cannot lead a run, which would fail for all calls that share it. Default: `nil`.
    package var unavailableFor: @Sendable (_ account: Identifier) -> Problem? = { _ in nil }
    /// Returns the charge if the run is cut short after it was sent: the larger of the measured
    /// amount and the certain one.
    package var chargeWhenCut: @Sendable (RunProgress) -> Int64
    /// Reads the output, and returns the mutations of records that the end of a call makes.
    package typealias Records = @Sendable (_ output: JSONValue) throws -> Recording
    /// Returns the mutations for one of the calls that have the output.
    ///
    /// It is deterministic, because it may be called repeatedly, and must return quickly.
    package typealias Recording = @Sendable (CompletedCall) throws -> [any RecordMutation]

    /// The records that a call changes in the transaction that charges it and stores its answer.
    ///
    /// Each call does so, also one that shares the run of another or gets a cached answer. Default:
    /// `nil`, none.
    package var records: Records?
    /// Runs the call.
    ///
    /// The task is cancelled if the answer is no longer wanted; errors are then ignored.
    package var run: @Sendable (CallContext) async throws(Problem) -> Outcome

    /// Creates a call.
    package init(
        input: JSONValue,
        hold: Int64,
        guess: Int64,
        life: Duration,
        isSent: Bool,
        unavailable: Problem? = nil,
        chargeWhenCut: @escaping @Sendable (RunProgress) -> Int64,
        run: @escaping @Sendable (CallContext) async throws(Problem) -> Outcome
    ) {
        self.input = input
        self.hold = hold
        self.guess = guess
        self.life = life
        self.isSent = isSent
        self.unavailable = unavailable
        self.chargeWhenCut = chargeWhenCut
        self.run = run
    }
}
