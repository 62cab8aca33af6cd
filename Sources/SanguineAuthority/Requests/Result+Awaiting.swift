extension Result {
    /// Creates the result of a closure that may suspend.
    package init(awaiting body: () async throws(Failure) -> Success) async {
        do throws(Failure) {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}
