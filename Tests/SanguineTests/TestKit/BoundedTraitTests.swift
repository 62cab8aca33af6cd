import TestSupport
import Testing

/// How long a test has whose suite stands in another one.
@Suite("Bounds of tests", .bounded(.seconds(20)))
struct BoundedTraitTests {
    @Test func `a test has as long as its suite says`() {
        #expect(BoundedTrait.present == .seconds(20))
    }

    @Test(.bounded(.seconds(10))) func `a bound of its own counts`() {
        #expect(BoundedTrait.present == .seconds(10))
    }

    @Suite("Longer", .bounded(.seconds(40)))
    struct Longer {
        @Test func `a suite in a suite may need more`() {
            #expect(BoundedTrait.present == .seconds(40))
        }
    }

    @Suite("Shorter", .bounded(.seconds(5)))
    struct Shorter {
        @Test(arguments: 1...2) func `a suite in a suite may need less`(_: Int) {
            #expect(BoundedTrait.present == .seconds(5))
        }
    }

    @Suite("Silent")
    struct Silent {
        @Test func `a suite that says nothing has the bound of the one around it`() {
            #expect(BoundedTrait.present == .seconds(20))
        }
    }
}
