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

    /// Tokens around a message that are not in its text (role, separators), rounded up generously.
    public static let overheadTokens: Int64 = 32

    /// Creates the pricing of a function.
    public init(price: Price, maxOutputTokens: Int64) {
        self.price = price
        self.maxOutputTokens = maxOutputTokens
    }

    /// What a call with a prompt of so many bytes can cost at most: what must be held for it.
    public func most(promptBytes: Int) -> Int64 {
        cost(bound(promptBytes: promptBytes, answerTokens: maxOutputTokens))
    }

    /// What to charge for a call.
    ///
    /// - Parameters:
    ///   - usage: What the upstream reported, or `nil` if that was missing or not believable.
    ///   - promptBytes: The bytes of the prompt that was sent.
    ///   - answerBytes: The bytes of the answer that came.
    /// - Returns: The cost, at most ``most(promptBytes:)``.
    public func charge(_ usage: Usage?, promptBytes: Int, answerBytes: Int) -> Int64 {
        let believable = usage.flatMap { $0.inputTokens >= 0 && $0.outputTokens >= 0 ? $0 : nil }
        let used =
            believable
            ?? bound(
                promptBytes: promptBytes,
                answerTokens: min(maxOutputTokens, Int64(answerBytes))
            )
        return min(cost(used), most(promptBytes: promptBytes))
    }

    /// What to charge for a call that was sent, and cut short before its usage was reported.
    ///
    /// The larger of what was measured, four bytes a token as in ``guess(promptBytes:)``, and what
    /// is certain: each part of an answer is a token at least, and what the upstream has reported so
    /// far was used.
    ///
    /// - Returns: The cost, at most ``most(promptBytes:)``.
    package func chargeWhenCut(_ progress: CallProgress, promptBytes: Int) -> Int64 {
        let measured = Usage(
            inputTokens: Int64((promptBytes + 3) / 4),
            outputTokens: Int64(max((progress.bytes + 3) / 4, progress.parts))
        )
        let certain = progress.usage ?? Usage(inputTokens: 0, outputTokens: 0)
        let used = Usage(
            inputTokens: max(measured.inputTokens, certain.inputTokens),
            outputTokens: max(measured.outputTokens, certain.outputTokens)
        )
        return min(cost(used), most(promptBytes: promptBytes))
    }

    /// A guess before anything was learned: four bytes a token, half of the output.
    public func guess(promptBytes: Int) -> Int64 {
        cost(Usage(inputTokens: Int64(promptBytes / 4), outputTokens: maxOutputTokens / 2))
    }

    private func bound(promptBytes: Int, answerTokens: Int64) -> Usage {
        Usage(
            inputTokens: Int64(promptBytes) + Self.overheadTokens,
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
}
