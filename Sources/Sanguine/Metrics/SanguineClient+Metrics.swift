extension SanguineClient {
    /// Measures an operation of the app's own: how often, how long, how often it failed.
    ///
    /// ```swift
    /// let chart = client.measure("draw chart") { Chart(points) }
    /// ```
    ///
    /// It stands in the summary's operations, by this name; give it nothing personal.
    ///
    /// - Returns: What the operation returns.
    /// - Throws: What the operation throws.
    public func measure<Result, Failure: Error>(
        _ name: String,
        _ operation: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let metrics = metrics.operation(name)
        let ticket = metrics.operationBegan()
        do throws(Failure) {
            let result = try operation()
            metrics.operationEnded(ticket, hasFailed: false)
            return result
        } catch {
            metrics.operationEnded(ticket, hasFailed: true)
            throw error
        }
    }

    /// Measures an operation of the app's own that suspends, from its call to its return.
    ///
    /// ```swift
    /// let image = try await client.measure("resize") { try await resizer.resize(photo) }
    /// ```
    ///
    /// - Returns: What the operation returns.
    /// - Throws: What the operation throws.
    nonisolated(nonsending)
        public func measure<Result, Failure: Error>(
            _ name: String,
            _ operation: () async throws(Failure) -> Result
        ) async throws(Failure) -> Result
    {
        let metrics = metrics.operation(name)
        let ticket = metrics.operationBegan()
        do throws(Failure) {
            let result = try await operation()
            metrics.operationEnded(ticket, hasFailed: false)
            return result
        } catch {
            metrics.operationEnded(ticket, hasFailed: true)
            throw error
        }
    }
}
