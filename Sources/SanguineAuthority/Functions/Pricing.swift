public import SanguineModel

/// What an upstream reports to have used.
public struct Usage: Hashable, Sendable {
    /// Tokens that were read.
    public var inputTokens: Int64
    /// Tokens that were written.
    public var outputTokens: Int64

    /// Creates a usage.
    public init(inputTokens: Int64, outputTokens: Int64) {
        self.inputTokens = inputTokens
        self.outputTokens = outputTokens
    }
}

/// What a call can cost at most, and what it did cost.
///
/// A token of a language model is never shorter than a byte, so a text has at most as many tokens
/// as bytes. That bound is what is held, and what is charged where the upstream reports nothing
/// believable, at most the hold.
public struct Pricing: Hashable, Sendable {
    /// The price.
    public let price: Price
    /// The most tokens that the upstream is asked to write.
    public let maxOutputTokens: Int64
    /// The most tokens that an attachment counts as where it is read; never negative.
    public let attachmentTokens: Int64

    /// Tokens around a message that are not in its text (role, separators), rounded up generously.
    public static let overheadTokens: Int64 = 32

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
        cost(bound(promptBytes, attachments, answerTokens: maxOutputTokens))
    }

    /// What to charge for a call.
    ///
    /// - Parameters:
    ///   - usage: What the upstream reported, or `nil` if that was missing or not believable.
    ///   - promptBytes: The bytes of the prompt that was sent.
    ///   - attachments: How many attachments were sent with it. Default: none.
    ///   - answerBytes: The bytes of the answer that came.
    /// - Returns: The cost, at most ``most(promptBytes:attachments:)``.
    public func charge(
        _ usage: Usage?,
        promptBytes: Int,
        attachments: Int = 0,
        answerBytes: Int
    ) -> Int64 {
        let believable = usage.flatMap { $0.inputTokens >= 0 && $0.outputTokens >= 0 ? $0 : nil }
        let used =
            believable
            ?? bound(
                promptBytes,
                attachments,
                answerTokens: min(maxOutputTokens, Int64(answerBytes))
            )
        return min(cost(used), most(promptBytes: promptBytes, attachments: attachments))
    }

    /// What to charge for a call that was sent, and cut short before its usage was reported.
    ///
    /// The larger of what was measured, four bytes a token as in
    /// ``guess(promptBytes:attachments:)``, and what is certain: each part of an answer is a token
    /// at least, and what the upstream has reported so far was used. Attachments count as what the
    /// function declares of them.
    ///
    /// - Returns: The cost, at most ``most(promptBytes:attachments:)``.
    package func chargeWhenCut(
        _ progress: CallProgress,
        promptBytes: Int,
        attachments: Int = 0
    ) -> Int64 {
        let measured = Usage(
            inputTokens: Int64((promptBytes + 3) / 4).saturatingSum(tokens(attachments)),
            outputTokens: Int64(max((progress.bytes + 3) / 4, progress.parts))
        )
        let certain = progress.usage ?? Usage(inputTokens: 0, outputTokens: 0)
        let used = Usage(
            inputTokens: max(measured.inputTokens, certain.inputTokens),
            outputTokens: max(measured.outputTokens, certain.outputTokens)
        )
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

    private func bound(_ promptBytes: Int, _ attachments: Int, answerTokens: Int64) -> Usage {
        let text = Int64(promptBytes).saturatingSum(Self.overheadTokens)
        return Usage(
            inputTokens: text.saturatingSum(tokens(attachments)),
            outputTokens: answerTokens
        )
    }

    private func cost(_ usage: Usage) -> Int64 {
        guard price.kind == .usage else { return price.amount }
        let input = usage.inputTokens.saturatingProduct(price.perMillionInput ?? 0)
        let output = usage.outputTokens.saturatingProduct(price.perMillionOutput ?? 0)
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
