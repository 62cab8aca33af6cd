public import SanguineModel

/// The usage that an upstream reports.
public struct Usage: Hashable, Sendable {
    /// The number of input tokens, including cached ones.
    public var inputTokens: Int64
    /// The number of output tokens, including reasoning.
    public var outputTokens: Int64
    /// The number of input tokens from the upstream's cache.
    public var cachedInputTokens: Int64
    /// The number of reasoning tokens; `nil` if it is unknown.
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

    /// Returns the larger of each count.
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

/// The largest possible cost of a call, and its actual cost.
///
/// A token of a language model is never shorter than a byte, so a text has at most as many tokens
/// as bytes. The hold is that bound. The charge never exceeds it, and follows one rule for answers
/// in one piece, in parts, and cut short:
///
/// | tokens | reported, and plausible | not reported, or fewer than certain |
/// |---|---|---|
/// | input | as reported | four bytes per token; a file as the function declares |
/// | output | as reported, plus the estimate of the output after the report | the estimate |
///
/// ``OutputMeasure`` defines the estimate and the certain count. Of the input, one token per 64
/// bytes is certain: 16 characters of at most four bytes.
public struct Pricing: Hashable, Sendable {
    /// The price.
    public let price: Price
    /// The maximum number of tokens that the upstream is asked for.
    public let maxOutputTokens: Int64
    /// The maximum number of tokens that an attachment counts as; never negative.
    public let attachmentTokens: Int64

    /// The tokens around a message besides its text (role, separators), rounded up generously.
    public static let overheadTokens: Int64 = 32

    /// The number of bytes of a prompt per certain token.
    private static let certainInputBytes = OutputMeasure.charactersPerToken * 4

    /// Creates the pricing of a function.
    ///
    /// - Parameters:
    ///   - price: The price.
    ///   - maxOutputTokens: The maximum number of tokens that the upstream is asked for.
    ///   - attachmentTokens: The maximum number of tokens that an attachment counts as, by
    ///     ``AttachmentRules/tokens``. Default: 0.
    public init(price: Price, maxOutputTokens: Int64, attachmentTokens: Int64 = 0) {
        self.price = price
        self.maxOutputTokens = maxOutputTokens
        self.attachmentTokens = max(0, attachmentTokens)
    }

    /// Returns the largest possible cost of a call, which must be held for it.
    ///
    /// - Parameters:
    ///   - promptBytes: The size of the prompt in bytes.
    ///   - attachments: The number of attachments. Default: 0.
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

    /// Returns the charge for the output and usage of an upstream, whether or not its answer is
    /// complete.
    ///
    /// - Parameters:
    ///   - progress: The output and the reported usage.
    ///   - promptBytes: The size of the sent prompt in bytes.
    ///   - attachments: The number of sent attachments. Default: 0.
    /// - Returns: The cost, at most ``most(promptBytes:attachments:)``.
    package func charge(
        _ progress: RunProgress,
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

    /// Returns an estimate before any call was measured: four bytes per token, attachments as
    /// declared, half of the output.
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

    /// Returns the cost of the tokens: cached and reasoning tokens at their own rates, if the price
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

    /// Converts millionths of the balance's unit, rounded up; returns at least the smallest amount.
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
