import SanguineModel

/// What is refused of the content of a call, whatever its function makes of it.
enum CallInput {
    /// Checks what a call brings against the rules of its function.
    ///
    /// - Throws: `invalid_content` for an input that is too large, and for what a function whose
    ///   answers everybody is given must not see.
    static func check(
        _ request: FunctionRequest<JSONValue>,
        _ rules: FunctionRules
    ) throws(Problem) {
        let limit = rules.limits.inputBytes
        guard request.input.canonical.count <= limit else {
            throw Problem(.invalidContent, "Shorten 'input' to \(limit) bytes of JSON.")
        }
        guard case .everyone(let shared) = rules.cache.audience else { return }
        guard request.attachments?.isEmpty ?? true else {
            throw Problem(
                .invalidContent,
                "Leave 'attachments' out: everybody is given the answers of this function."
            )
        }
        guard case .object(let members) = request.input else {
            throw Problem(.invalidContent, "Set 'input' to an object.")
        }
        guard let other = members.keys.filter({ !shared.contains($0) }).min() else { return }
        let names = shared.sorted().map { "'\($0)'" }.joined(separator: ", ")
        throw Problem(
            .invalidContent,
            """
            Leave 'input.\(other.prefix(64))' out: everybody is given the answers of this \
            function, and they may depend on \(shared.isEmpty ? "no members" : names).
            """
        )
    }
}
