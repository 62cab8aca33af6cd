package import SanguineModel

/// A function that an authority runs and charges for.
package protocol MeteredFunction: Sendable {
    /// Its name in the path.
    var name: String { get }
    /// What it costs, how long its answers are kept, and its limits.
    var rules: FunctionRules { get }
    /// The members of `input`: name and type, with `?` after the name of optional ones.
    var inputs: [String: String] { get }

    /// Reads the input of a call.
    ///
    /// - Throws: `invalid_content`, naming the member and what it takes.
    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall
}

extension MeteredFunction {
    /// What is said of it to those who may call it.
    package var description: FunctionDescription {
        FunctionDescription(name: name, rules: rules, inputs: inputs)
    }
}

/// What a call brings.
package struct FunctionInput: Sendable {
    /// The `input` of the body.
    package var value: JSONValue
    /// The files, which the account has and the function's rules allow.
    package var attachments: [BlobFacts]
    /// The members of the account's settings on which the answer depends, as the function's cache
    /// declares them: `null` for one that is not set, and no others.
    package var settings: [String: JSONValue]

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

/// What a running call can use of its surroundings.
package struct CallContext: Sendable {
    /// Who asks; `nil` where the answer is for everybody.
    package var account: Identifier?
    /// The account whose turn the run has, for counting failures; no answer may depend on it.
    package var caller: Identifier?
    /// The members of the account's settings on which the answer depends, as of when the call was
    /// found not to be answered yet; see ``FunctionInput/settings``.
    package var settings: [String: JSONValue]
    /// Whether somebody follows the parts of the answer; a function that is asked for none may make
    /// its answer in one piece.
    package var isStreamed: Bool
    /// Adds a part to the answer, and waits while too much is not stored yet.
    ///
    /// Of the part so many bytes were made by the function itself; none where ``report`` says what
    /// an upstream has made.
    package var write: @Sendable (_ part: String, _ bytes: Int) async -> Void
    /// Replaces the record of what the upstream has made and reported so far.
    package var report: @Sendable (CallProgress) -> Void
    /// Takes note that the function fails without having asked an upstream: a call that was cut
    /// short costs nothing then.
    package var askedNobody: @Sendable () -> Void
    /// Reads a file of the call.
    package var attachment: @Sendable (BlobFacts) async throws(Problem) -> [UInt8]

    /// Creates a context; what is not given does nothing.
    package init(
        account: Identifier? = nil,
        caller: Identifier? = nil,
        settings: [String: JSONValue] = [:],
        isStreamed: Bool = false,
        write: @escaping @Sendable (String, Int) async -> Void = { _, _ in },
        report: @escaping @Sendable (CallProgress) -> Void = { _ in },
        askedNobody: @escaping @Sendable () -> Void = {},
        attachment: @escaping @Sendable (BlobFacts) async throws(Problem) -> [UInt8] = {
            _ throws(Problem) in
            throw Problem(.notFound, "Upload the file again: it is not there.")
        }
    ) {
        self.account = account
        self.caller = caller
        self.settings = settings
        self.isStreamed = isStreamed
        self.write = write
        self.report = report
        self.askedNobody = askedNobody
        self.attachment = attachment
    }
}

/// A call whose input was read and found valid.
package struct PreparedCall: Sendable {
    /// What a call made, and what it cost.
    package struct Outcome: Sendable {
        /// The `output` of the answer.
        package var output: JSONValue
        /// The output as it stands in the answer, in JSON, where its bytes count.
        ///
        /// Default: `nil`, the output is written.
        package var written: [UInt8]?
        /// What is charged; at most what was held.
        package var charge: Int64
        /// Why the language model stopped, in its own word; `nil` if none was asked, or it does
        /// not say.
        ///
        /// An output that was cut short is given to the calls that share its run, and not kept.
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

    /// The part of the input that the function heeds: calls that have it in common are the same.
    package var input: JSONValue
    /// The files that it works on, as they were found to be the account's; they make calls that
    /// have others another call.
    package internal(set) var attachments: [BlobFacts] = []
    /// A fingerprint of prompt, model and upstreams, for the key of a kept answer.
    ///
    /// Default: `nil`, the answer depends on the input only.
    package var question: Fingerprint?
    /// What is held: the most that the call can cost.
    package var hold: Int64
    /// What it will probably cost, as long as nothing was learned.
    package var guess: Int64
    /// How long its hold lasts at least: longer than the call can, or its answer would be lost.
    package var life: Duration
    /// The same for an answer in parts, which may take longer in all; ``life`` if `nil`.
    package var streamedLife: Duration?
    /// Whether it leaves for an upstream, so that its hold is charged if nobody learns its end.
    package var isSent: Bool
    /// Why it cannot run now, whoever pays; `nil` if it can.
    package var unavailable: Problem?
    /// Why it cannot run now for a call of this account; `nil` if it can.
    ///
    /// Such a call leads no run, which would fail for all calls that share it. Default: it can.
    package var unavailableFor: @Sendable (_ account: Identifier) -> Problem? = { _ in nil }
    /// What is charged if the run is cut short after it was sent: the larger of what was measured
    /// and what is certain.
    package var chargeWhenCut: @Sendable (CallProgress) -> Int64
    /// Runs it.
    ///
    /// A cancelled task means that nobody wants the answer any more; what is thrown then is not
    /// looked at.
    package var run: @Sendable (CallContext) async throws(Problem) -> Outcome

    /// Creates a call.
    package init(
        input: JSONValue,
        hold: Int64,
        guess: Int64,
        life: Duration,
        isSent: Bool,
        unavailable: Problem? = nil,
        chargeWhenCut: @escaping @Sendable (CallProgress) -> Int64,
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

extension Problem {
    /// The answer of a call whose upstream took too long.
    package static var upstreamTooSlow: Problem {
        Problem(
            .upstreamTimeout,
            "Nothing was charged. Send the call again: with the same key it runs anew."
        )
    }

    /// The answer of a call whose upstream failed: nothing of what it said.
    package static var upstreamFailed: Problem {
        Problem(
            .upstreamFailed,
            "Nothing was charged. Send the call again later: with the same key it runs anew."
        )
    }

    /// The answer of a call whose upstream has said more than is read.
    package static func answerTooLong(_ limit: Int) -> Problem {
        Problem(
            .upstreamFailed,
            tooLong + """
                 \(limit) bytes. What was made of it was charged. Call again with a new key, and \
                ask for a shorter answer, without 'top_logprobs'.
                """
        )
    }

    private static let tooLong = "The answer is longer than"

    /// Whether its detail says that the answer is too long, and that it was charged.
    var isOfLength: Bool { detail.hasPrefix(Self.tooLong) }
}
