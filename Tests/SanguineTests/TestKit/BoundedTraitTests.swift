import TestSupport
import Testing

/// Time limits of tests in nested suites.
@Suite("Time limits of tests", .bounded(.seconds(20)))
struct BoundedTraitTests {
    @Test func `a test has its suite's limit`() {
        #expect(BoundedTrait.present == .seconds(20))
    }

    @Test(.bounded(.seconds(10))) func `a test's own limit applies`() {
        #expect(BoundedTrait.present == .seconds(10))
    }

    @Suite("Longer limit", .bounded(.seconds(40)))
    struct Longer {
        @Test func `a nested suite can have a longer limit`() {
            #expect(BoundedTrait.present == .seconds(40))
        }
    }

    @Suite("Shorter limit", .bounded(.seconds(5)))
    struct Shorter {
        @Test(arguments: 1...2) func `a nested suite can have a shorter limit`(_: Int) {
            #expect(BoundedTrait.present == .seconds(5))
        }
    }

    @Suite("Inherited limit")
    struct Silent {
        @Test func `a nested suite without a limit inherits one`() {
            #expect(BoundedTrait.present == .seconds(20))
        }
    }
}
