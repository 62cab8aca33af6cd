extension SanguineClient {
    /// Measures one of the app's operations: how often it runs and fails, and how long it takes.
    ///
    /// ```swift
    /// let chart = client.measure("draw chart") { Chart(points) }
    /// ```
    ///
    /// It is listed in the summary's operations under this name, which must not contain personal
    /// data.
    ///
    /// - Returns: The result of the operation.
    /// - Throws: The error of the operation.
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

    /// Measures one of the app's asynchronous operations, from its call to its return.
    ///
    /// ```swift
    /// let image = try await client.measure("resize") { try await resizer.resize(photo) }
    /// ```
    ///
    /// - Returns: The result of the operation.
    /// - Throws: The error of the operation.
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
