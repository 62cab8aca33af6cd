extension SanguineClient {
    /// Returns the client's state as text, for a bug report.
    ///
    /// ```swift
    /// logger.notice("\(client.debugReport())")
    /// ```
    ///
    /// It covers the user and the session, the network, requests, the cache, the outbox, the feed,
    /// the balance, the files on disk, failures and metrics. Each part is read at its own moment.
    /// The text has at most ``MetricsLimits/reportBytes``, and each list at most
    /// ``MetricsLimits/reportRows`` lines and the number of the others.
    ///
    /// It contains names of queries and mutations, numbers, codes of errors, and the ends of ids.
    /// It never contains tokens, values, parameters of queries, arguments of operations, names of
    /// lanes, or the id of a user that the app has named.
    ///
    /// Like ``storeReport``, it opens files that are not open yet.
    ///
    /// - Returns: Sections of lines, of which the last line ends with a line feed.
    public func debugReport() -> String { DebugReport(of: self).text }

    /// Measures one of the app's operations: how often it runs, how often it fails, and how long it
    /// takes.
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
