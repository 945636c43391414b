// Package meter is the bill of EC2, kept as AWS keeps it: instances by the second with 60 seconds at least, volumes, public IPv4 addresses, CPU
// credits of burstable instances in unlimited mode, and commitments, which are applied hour by hour. It is pure: the histories of instances and the
// price list are plain data.
//
// It judges what slipway says that nodes cost, so it shares no code and no numbers with slipway. Its rules are those of AWS's pages, as read in November 2026:
//
//   - aws.amazon.com/ec2/pricing: instances and volumes are billed in one-second increments, with a minimum of 60 seconds.
//   - EC2 User Guide, "Amazon EC2 instance state changes": an instance is billed while it is running, not while it is pending or shutting-down.
//   - EC2 User Guide, "Billing for interrupted Spot Instances": the Spot price in effect is paid; an instance that EC2 interrupts in its first hour is free.
//   - aws.amazon.com/ebs/pricing: a price per month is divided by the seconds of the month; gp3 includes 3,000 IOPS and 125 MiB/s.
//   - aws.amazon.com/ec2/pricing/dedicated-instances: 2 USD for each hour in which at least one dedicated instance of any type runs in the region.
//   - aws.amazon.com/vpc/pricing: public IPv4 addresses are billed in one-second increments, with a minimum of 60 seconds.
//   - EC2 User Guide, "Unlimited mode concepts": surplus credits beyond what an instance earns in 24 hours are charged at the end of the hour, the rest when it ends.
//   - EC2 User Guide, "How Reserved Instance discounts are applied" and "How you are billed": zonal ones first, regional ones from the smallest to the largest size,
//     3,600 seconds of usage per clock-hour for each.
//   - Savings Plans User Guide, "Calculating your bills": after Reserved Instances, EC2 Instance plans before Compute plans, the highest savings percentage first,
//     then the lowest rate.
//
// What it does not meter: licenses of other systems than Linux, reserved capacity that no instance uses, data transfer, taxes.
package meter
