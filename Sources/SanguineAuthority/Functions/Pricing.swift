public import SanguineModel

/// What an upstream reports to have used.
public struct Usage: Hashable, Sendable {
    /// Tokens that were read, those of a cache among them.
    public var inputTokens: Int64
    /// Tokens that were written, those of reasoning among them.
    public var outputTokens: Int64
    /// Of the tokens that were read, those that came from the upstream's cache.
    public var cachedInputTokens: Int64
    /// Of the tokens that were written, those of reasoning; `nil` if that is not known.
    public var reasoningTokens: Int64?

    /// Creates a usage.
    public init(
        inputTokens: Int64,
        outputTokens: Int64,
        cachedInputTokens: Int64 = 0,
        reasoningTokens: Int64? = nil
    ) {
        self.inputTokens = inputTokens
        self.outputTokens = outputTokens
        self.cachedInputTokens = cachedInputTokens
        self.reasoningTokens = reasoningTokens
    }

    /// The larger count of either.
    func merged(with other: Usage) -> Usage {
        let reasoning = [reasoningTokens, other.reasoningTokens].compactMap(\.self).max()
        return Usage(
            inputTokens: max(inputTokens, other.inputTokens),
            outputTokens: max(outputTokens, other.outputTokens),
            cachedInputTokens: max(cachedInputTokens, other.cachedInputTokens),
            reasoningTokens: reasoning
        )
    }
}

/// What a call can cost at most, and what it did cost.
///
/// A token of a language model is never shorter than a byte, so a text has at most as many tokens
/// as bytes. The hold is that bound. The charge is never more, and follows one rule for answers in
/// one piece, in parts, and cut short:
///
/// | tokens | reported, and possible | not reported, or fewer than is certain |
/// |---|---|---|
/// | input | as reported | four bytes a token; a file as the function declares |
/// | output | as reported, and the estimate of what was made after the report | the estimate |
///
/// ``OutputMeasure`` says what is estimated and what is certain. Of the input a token in 64 bytes
/// is certain: 16 characters, of four bytes at most.
public struct Pricing: Hashable, Sendable {
    /// The price.
    public let price: Price
    /// The most tokens that the upstream is asked to write.
    public let maxOutputTokens: Int64
    /// The most tokens that an attachment counts as where it is read; never negative.
    public let attachmentTokens: Int64

    /// Tokens around a message that are not in its text (role, separators), rounded up generously.
    public static let overheadTokens: Int64 = 32

    /// Bytes of a prompt in which there is a token for certain.
    private static let certainInputBytes = OutputMeasure.charactersPerToken * 4

    /// Creates the pricing of a function.
    ///
    /// - Parameters:
    ///   - price: The price.
    ///   - maxOutputTokens: The most tokens that the upstream is asked to write.
    ///   - attachmentTokens: The most that an attachment counts as, by
    ///     ``AttachmentRules/tokens``. Default: nothing.
    public init(price: Price, maxOutputTokens: Int64, attachmentTokens: Int64 = 0) {
        self.price = price
        self.maxOutputTokens = maxOutputTokens
        self.attachmentTokens = max(0, attachmentTokens)
    }

    /// What a call can cost at most: what must be held for it.
    ///
    /// - Parameters:
    ///   - promptBytes: The bytes of the prompt.
    ///   - attachments: How many attachments go with it. Default: none.
    /// - Returns: The amount, in the balance's unit.
    public func most(promptBytes: Int, attachments: Int = 0) -> Int64 {
        let text = Int64(promptBytes).saturatingSum(Self.overheadTokens)
        let input = text.saturatingSum(tokens(attachments))
        let (cached, reasoning) = (price.perMillionCachedInput, price.perMillionReasoning)
        return cost(
            input.saturatingProduct(max(price.perMillionInput ?? 0, cached ?? 0)),
            maxOutputTokens.saturatingProduct(max(price.perMillionOutput ?? 0, reasoning ?? 0))
        )
    }

    /// What to charge for what an upstream has made and reported, whether or not it came to its
    /// end.
    ///
    /// - Parameters:
    ///   - progress: What was made and reported.
    ///   - promptBytes: The bytes of the prompt that was sent.
    ///   - attachments: How many attachments were sent with it. Default: none.
    /// - Returns: The cost, at most ``most(promptBytes:attachments:)``.
    package func charge(
        _ progress: CallProgress,
        promptBytes: Int,
        attachments: Int = 0
    ) -> Int64 {
        var used = estimate(of: progress.output, promptBytes, attachments)
        if let usage = progress.usage {
            if usage.inputTokens >= Int64(promptBytes / Self.certainInputBytes) {
                used.inputTokens = usage.inputTokens
                used.cachedInputTokens = usage.cachedInputTokens
            }
            let reported = progress.reportedOutput
            if usage.outputTokens >= reported.certainTokens {
                let later = progress.output.estimatedTokens - reported.estimatedTokens
                let both = usage.outputTokens.saturatingSum(max(0, later))
                used.outputTokens = max(usage.outputTokens, min(both, maxOutputTokens))
                used.reasoningTokens = usage.reasoningTokens ?? used.reasoningTokens
            }
        }
        return min(cost(used), most(promptBytes: promptBytes, attachments: attachments))
    }

    /// A guess before anything was learned: four bytes a token, attachments as they are declared,
    /// half of the output.
    public func guess(promptBytes: Int, attachments: Int = 0) -> Int64 {
        let input = Int64(promptBytes / 4).saturatingSum(tokens(attachments))
        return cost(Usage(inputTokens: input, outputTokens: maxOutputTokens / 2))
    }

    private func tokens(_ attachments: Int) -> Int64 {
        Int64(attachments).saturatingProduct(attachmentTokens)
    }

    private func estimate(
        of output: OutputMeasure,
        _ promptBytes: Int,
        _ attachments: Int
    ) -> Usage {
        Usage(
            inputTokens: OutputMeasure.estimatedTokens(bytes: promptBytes)
                .saturatingSum(tokens(attachments)),
            outputTokens: min(maxOutputTokens, output.estimatedTokens),
            reasoningTokens: output.estimatedReasoningTokens
        )
    }

    /// What these tokens cost: those of the cache and of reasoning at their own rates, if the price
    /// has them.
    private func cost(_ usage: Usage) -> Int64 {
        let (input, output) = (price.perMillionInput ?? 0, price.perMillionOutput ?? 0)
        let cached = min(max(0, usage.cachedInputTokens), usage.inputTokens)
        let reasoning = min(max(0, usage.reasoningTokens ?? 0), usage.outputTokens)
        return cost(
            (usage.inputTokens - cached).saturatingProduct(input)
                .saturatingSum(cached.saturatingProduct(price.perMillionCachedInput ?? input)),
            (usage.outputTokens - reasoning).saturatingProduct(output)
                .saturatingSum(reasoning.saturatingProduct(price.perMillionReasoning ?? output))
        )
    }

    /// The price of millionths of the balance's unit, rounded up, at least the smallest amount.
    private func cost(_ input: Int64, _ output: Int64) -> Int64 {
        guard price.kind == .usage else { return price.amount }
        let (sum, overflow) = input.addingReportingOverflow(output)
        guard !overflow else { return WireLimits.amount }
        let roundedUp = sum / 1_000_000 + (sum % 1_000_000 > 0 ? 1 : 0)
        return min(max(price.amount, roundedUp), WireLimits.amount)
    }
}

extension Int64 {
    fileprivate func saturatingProduct(_ other: Int64) -> Int64 {
        let (product, overflow) = multipliedReportingOverflow(by: other)
        return overflow ? .max : product
    }

    fileprivate func saturatingSum(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }
}
